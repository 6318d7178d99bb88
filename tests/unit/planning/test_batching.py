"""Batches out of a stream of objects."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from seqferry.planning.batching import (
    GIANT,
    GIANTS,
    MAX_OBJECTS,
    SMALL,
    Batcher,
    GuidedSchedule,
    Limit,
    count_requests,
    priority,
)

LEAST_REQUESTS = 100
"""That a part of a batch is to have, about."""


@dataclass(frozen=True)
class NumberedObject:
    number: int
    size: int


_SIZES = st.one_of(st.integers(0, 1000), st.integers(GIANT - 2, GIANT + 2), st.integers(0, 50 * 1000**4))


def _batches(pages: list[list[NumberedObject]]) -> list[list[NumberedObject]]:
    batcher = Batcher[NumberedObject]()
    return [batch for page in pages for batch in batcher.add(page)] + list(batcher.rest())


@given(st.lists(_SIZES, max_size=300), st.integers(1, 50))
def test_each_object_is_in_exactly_one_batch(sizes: list[int], page: int) -> None:
    things = [NumberedObject(number, size) for number, size in enumerate(sizes)]

    batches = _batches([things[start : start + page] for start in range(0, len(things), page)])

    assert sorted(thing.number for batch in batches for thing in batch) == list(range(len(sizes)))
    for batch in batches:
        [limit] = {GIANTS if thing.size >= GIANT else SMALL for thing in batch}
        assert 0 < len(batch) <= limit.objects
        assert len(batch) == 1 or sum(thing.size for thing in batch) <= limit.bytes


def test_many_small_ones_fill_whole_batches() -> None:
    batches = _batches([[NumberedObject(number, 1) for number in range(2500)]])

    assert [len(batch) for batch in batches] == [1000, 1000, 500]


def test_batches_of_very_many_objects_grow_and_stay_a_small_part_of_them() -> None:
    batcher = Batcher[NumberedObject]()
    sizes: list[int] = []
    for _ in range(1000):
        sizes += [len(batch) for batch in batcher.add([NumberedObject(0, 1)] * 1000)]

    assert sizes[:63] == [SMALL.objects] * 63
    assert sizes == sorted(sizes)
    assert sizes[-1] == MAX_OBJECTS
    assert all(size <= max(SMALL.objects, sum(sizes[: number + 1]) / 60) for number, size in enumerate(sizes))
    assert sum(sizes) + sum(map(len, batcher.rest())) == 1_000_000


def test_batches_of_a_given_limit_do_not_grow() -> None:
    batcher = Batcher[NumberedObject](Limit(objects=100, bytes=SMALL.bytes))

    batches = [batch for _ in range(100) for batch in batcher.add([NumberedObject(0, 1)] * 1000)]

    assert {len(batch) for batch in batches} == {100}


def test_giants_go_together_but_fewer_of_them() -> None:
    things = [NumberedObject(number, GIANT if number % 2 else 1) for number in range(2 * GIANTS.objects + 2)]
    batcher = Batcher[NumberedObject]()

    assert list(batcher.add(things)) == [things[1 : 2 * GIANTS.objects : 2]]
    assert list(batcher.rest()) == [[things[-1]], things[::2]]
    assert list(batcher.rest()) == []


def test_an_object_larger_than_any_batch_is_one_by_itself() -> None:
    batches = _batches([[NumberedObject(0, GIANT), NumberedObject(1, GIANTS.bytes + 1), NumberedObject(2, GIANT)]])

    assert [[thing.number for thing in batch] for batch in batches] == [[0], [1], [2]]


@given(st.integers(0, 50 * 1000**4), st.integers(0, 50 * 1000**4))
def test_bigger_objects_never_come_later(one: int, other: int) -> None:
    small, big = sorted((one, other))

    assert 1 <= priority([NumberedObject(0, big)]) <= priority([NumberedObject(0, small)])


def test_a_batch_counts_as_its_biggest_object() -> None:
    assert (
        priority([NumberedObject(0, 1), NumberedObject(1, 10**9)])
        == priority([NumberedObject(0, 10**9)])
        < priority([NumberedObject(0, 10**6)])
    )
    assert priority([]) == priority([NumberedObject(0, 0)])


def _requests(batch: list[NumberedObject]) -> float:
    return count_requests(thing.size for thing in batch)


_COPIED = st.one_of(st.integers(0, 10**6), st.integers(0, 50 * GIANT))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=60), st.integers(1, 12), _COPIED)
def test_all_batches_are_taken_once_and_few_are_held(pages: list[tuple[int, int]], workers: int, size: int) -> None:
    schedule = GuidedSchedule[NumberedObject]()
    added, taken = list[NumberedObject](), list[list[NumberedObject]]()

    for batches, queued in pages:
        for _ in range(batches):
            batch = [NumberedObject(len(added) + number, size) for number in range(SMALL.objects // 10)]
            added += batch
            schedule.add(batch)
        due = schedule.take_due(workers, queued)
        assert workers == 1 or queued >= workers or len(due) > 0  # those that wait for work get some
        taken += due
        held = len(added) - sum(map(len, taken))
        assert held <= min(2 * workers, 16) * SMALL.objects // 10
        assert workers > 1 or held == 0
    taken += schedule.take_rest(workers)

    assert [thing for batch in taken for thing in batch] == added
    assert all(taken)


@given(st.lists(st.lists(_COPIED, min_size=1, max_size=300), min_size=1, max_size=8), st.integers(2, 12))
def test_workers_that_share_the_last_batches_end_together(batches: list[list[int]], workers: int) -> None:
    schedule = GuidedSchedule[NumberedObject]()
    for batch in batches:
        schedule.add([NumberedObject(number, size) for number, size in enumerate(batch)])
    parts = schedule.take_rest(workers)

    ends = [0.0] * workers
    for part in parts:  # each worker takes the next one when it is free, and all are equally fast
        heapq.heapreplace(ends, ends[0] + _requests(part))

    biggest = max(count_requests([size]) for batch in batches for size in batch)
    assert max(ends) - sum(ends) / workers <= 1.5 * (LEAST_REQUESTS + biggest)


def test_the_last_batches_fall_into_parts_that_get_smaller() -> None:
    schedule = GuidedSchedule[NumberedObject]()
    for number in range(8):
        schedule.add([NumberedObject(number * 1000 + one, 1) for one in range(1000)])

    sizes = [len(part) for part in schedule.take_rest(4)]

    assert sizes[0] == 1000
    assert LEAST_REQUESTS / 2 < sizes[-1] <= LEAST_REQUESTS
    assert all(after <= 1.5 * before for before, after in itertools.pairwise(sizes))


def test_a_worker_alone_gets_whole_batches_immediately() -> None:
    schedule = GuidedSchedule[NumberedObject]()
    whole = [[NumberedObject(one, 1) for one in range(1000)] for _ in range(2)]
    for batch in whole:
        schedule.add(batch)

    assert schedule.take_due(1, 9) == whole
    assert schedule.take_rest(1) == []
