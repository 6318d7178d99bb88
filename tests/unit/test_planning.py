"""Batches out of a stream of objects."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from seqferry.planning import ALONE, BATCH_BYTES, BATCH_OBJECTS, Batcher, priority


@dataclass(frozen=True)
class Thing:
    number: int
    size: int


_SIZES = st.one_of(st.integers(0, 1000), st.integers(ALONE - 2, ALONE + 2), st.integers(0, 50 * 1000**4))


def _batches(pages: list[list[Thing]]) -> list[list[Thing]]:
    batcher = Batcher[Thing]()
    return [batch for page in pages for batch in batcher.add(page)] + list(batcher.rest())


@given(st.lists(_SIZES, max_size=300), st.integers(1, 50))
def test_each_object_is_in_exactly_one_batch(sizes: list[int], page: int) -> None:
    things = [Thing(number, size) for number, size in enumerate(sizes)]

    batches = _batches([things[start : start + page] for start in range(0, len(things), page)])

    assert sorted(thing.number for batch in batches for thing in batch) == list(range(len(sizes)))
    for batch in batches:
        assert 0 < len(batch) <= BATCH_OBJECTS
        assert len(batch) == 1 or sum(thing.size for thing in batch) <= BATCH_BYTES
        assert len(batch) == 1 or all(thing.size < ALONE for thing in batch)


def test_many_small_ones_fill_whole_batches() -> None:
    batches = _batches([[Thing(number, 1) for number in range(2500)]])

    assert [len(batch) for batch in batches] == [1000, 1000, 500]


def test_a_giant_goes_at_once_and_alone() -> None:
    batcher = Batcher[Thing]()

    assert list(batcher.add([Thing(0, 5), Thing(1, ALONE), Thing(2, 6)])) == [[Thing(1, ALONE)]]
    assert list(batcher.rest()) == [[Thing(0, 5), Thing(2, 6)]]
    assert list(batcher.rest()) == []


@given(st.integers(0, 50 * 1000**4), st.integers(0, 50 * 1000**4))
def test_bigger_objects_never_come_later(one: int, other: int) -> None:
    small, big = sorted((one, other))

    assert 1 <= priority([Thing(0, big)]) <= priority([Thing(0, small)])


def test_a_batch_counts_as_its_biggest_object() -> None:
    assert priority([Thing(0, 1), Thing(1, 10**9)]) == priority([Thing(0, 10**9)]) < priority([Thing(0, 10**6)])
    assert priority([]) == priority([Thing(0, 0)])
