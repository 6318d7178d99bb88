"""Lists of transfers and objects: pages in both directions, and filters."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from control import add_batch, planned, results, spec_number

from seqferry.db import batches, object_pages
from seqferry.db.paging import Cursor, ObjectFilter, Page, TransferFilter, after_prefix
from seqferry.db.tables import object_, transfer
from seqferry.service.service import Service
from seqferry.spec.build import build_spec

pytestmark = pytest.mark.every_database  # pages are SQL of each


def _filled(service: Service, rng: random.Random) -> tuple[str, dict[str, str]]:
    """A transfer of 7 batches; its keys in order of their rows, each with its state."""
    transfer_id = service.submit(spec_number(0), actor="ada")
    states = ("done", "failed", "skipped", "cancelled", "pending")
    fates: dict[str, str] = {}
    keys = [f"{part}{number}" for number in range(6) for part in ("a/X_", "b/%_", "B/ä", "c/\U0010ffff")]
    rng.shuffle(keys)
    with service.database.write() as connection:
        for number in range(0, len(keys), 4):
            group = keys[number : number + 4]
            batch_number = add_batch(connection, transfer_id, [planned(key) for key in group])
            assert batch_number is not None
            wanted = [rng.choice(states) for _ in group]
            fates |= {f"run/{key}": state for key, state in zip(group, wanted, strict=True)}
            run = batches.begin_batch(connection, transfer_id, batch_number, 1.0)
            assert run is not None
            query = sa.select(object_.c.source_key, object_.c.id).where(object_.c.batch_number == batch_number)
            rows: dict[str, int] = {row.source_key: row.id for row in connection.execute(query)}
            ends = [
                {"id": rows[f"run/{key}"], "state": state}
                for key, state in zip(group, wanted, strict=True)
                if state != "pending"
            ]
            if ends:
                batches.record(connection, [(run, results(*ends))])
    return transfer_id, fates


def _all(read: Callable[[Cursor | None], Page[Any]]) -> list[list[Any]]:
    """All pages forwards, and then all backwards: the same entries in the same order."""
    pages, cursor, last = [], None, None
    while True:
        page = read(cursor)
        pages.append(list(page.entries))
        if page.entries:
            last = page
        cursor = page.next
        if cursor is None:
            break
    there = [entry for entries in pages for entry in entries]
    if last is not None:
        back, cursor = list(last.entries), last.previous
        while cursor is not None:
            page = read(cursor)
            back = [*page.entries, *back]
            cursor = page.previous
        assert back == there
    return pages


@pytest.mark.parametrize(
    "wanted",
    [
        ObjectFilter(),
        *(ObjectFilter(state=state) for state in ("done", "failed", "skipped", "cancelled", "pending", "active")),
        ObjectFilter(text="x_1"),
        ObjectFilter(text="%"),
        ObjectFilter(text="_", state="done"),
        ObjectFilter(prefix="run/b/"),
        ObjectFilter(prefix="run/c/\U0010ffff"),
        ObjectFilter(prefix="run/", state="failed"),
        ObjectFilter(prefix="run/", text="ä"),
        ObjectFilter(prefix="", state="skipped"),
        ObjectFilter(text="nowhere"),
        ObjectFilter(prefix="nowhere/"),
        ObjectFilter(text="\0"),
    ],
    ids=str,
)
def test_pages_of_objects_hold_what_the_filter_says_in_both_directions(
    service: Service, rng: random.Random, wanted: ObjectFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_id, fates = _filled(service, rng)
    # So few that searches take several pages.
    monkeypatch.setattr(object_pages, "MAX_SCANNED", 8)

    def read(cursor: Cursor | None) -> Page[Any]:
        page = service.object_page(transfer_id, wanted, cursor=cursor, limit=3)
        return Page([(one.source_key, one.state) for one in page.entries], page.next, page.previous)

    pages = _all(read)

    # All batches have begun, so that what has not ended is at work.
    fates = {key: "active" if state == "pending" else state for key, state in fates.items()}
    expected = [
        (key, state)
        for key, state in fates.items()
        if wanted.state in (None, state)
        and (wanted.text or "").lower() in key.lower()
        and key.startswith(wanted.prefix or "")
    ]
    if wanted.prefix is not None:
        expected.sort(key=lambda one: one[0].encode())
    assert [entry for page in pages for entry in page] == expected
    assert max(map(len, pages)) <= 3


def test_a_search_stops_after_so_many_objects_and_goes_on(
    service: Service, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_id, _ = _filled(service, rng)
    monkeypatch.setattr(object_pages, "MAX_SCANNED", 8)

    page = service.object_page(transfer_id, ObjectFilter(text="nowhere"))

    assert page.entries == []
    assert page.next is not None


def test_objects_that_are_wanted_all_at_once_come_from_all_pages(
    service: Service, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_id, fates = _filled(service, rng)
    monkeypatch.setattr(object_pages, "MAX_SCANNED", 1)

    found = service.objects(transfer_id, state="skipped")

    assert [one.source_key for one in found] == [key for key, state in fates.items() if state == "skipped"]


def test_a_cursor_of_another_transfer_finds_nothing_of_it(service: Service, rng: random.Random) -> None:
    first, _ = _filled(service, rng)
    second = service.submit(spec_number(1), actor="ada")
    cursor = Cursor(str(service.objects(first)[0].row))

    for wanted in (ObjectFilter(), ObjectFilter(prefix="run/"), ObjectFilter(text="a"), ObjectFilter(state="done")):
        assert service.object_page(second, wanted, cursor=cursor).entries == []


def _transfers(service: Service) -> list[str]:
    """Ids, newest first, two of them of the same time."""
    people = ("ada@host", "http pipeline from 10.0.0.1", "grace@host")
    ids = [
        service.submit(
            build_spec(f"s3://vendor/run{number}/", f"s3://ours/RUN{number}/", endpoint_url="http://127.0.0.1:9"),
            actor=people[number % 3],
        )
        for number in range(7)
    ]
    service.cancel(ids[3], actor="ada")
    with service.database.write() as connection:
        for number, each in enumerate(ids):
            at = 1000.0 + min(number, 5)
            connection.execute(transfer.update().where(transfer.c.id == each).values(created_at=at))
    return [*sorted(ids[5:]), *ids[:5][::-1]]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (TransferFilter(), "5643210"),
        (TransferFilter(states=("cancelled",)), "3"),
        (TransferFilter(states=("queued", "cancelled")), "5643210"),
        (TransferFilter(text="run4"), "4"),
        (TransferFilter(text="ours/run"), "5643210"),
        (TransferFilter(prefix="s3://ours/RUN2"), "2"),
        (TransferFilter(prefix="s3://ours/run2"), ""),
        (TransferFilter(prefix="s3://vendor/"), "5643210"),
        (TransferFilter(person="PIPELINE"), "41"),
        (TransferFilter(since=1001.0, until=1003.0), "21"),
        (TransferFilter(text="%"), ""),
        (TransferFilter(text="\0"), ""),
    ],
    ids=str,
)
def test_pages_of_transfers_hold_what_the_filter_says_in_both_directions(
    service: Service, wanted: TransferFilter, numbers: str
) -> None:
    ids = _transfers(service)
    by_number = {status.spec.source.key[3]: status.id for status in service.transfers()}

    def read(cursor: Cursor | None) -> Page[Any]:
        page = service.transfer_page(wanted, cursor=cursor, limit=2)
        return Page([status.id for status in page.entries], page.next, page.previous)

    found = [one for page in _all(read) for one in page]

    assert sorted(found, key=ids.index) == found
    assert set(found) == {by_number[number] for number in numbers}
    assert len(found) == len(numbers)


@pytest.mark.parametrize("text", ["a", "run/", "é", "\ud7ff", "x\U0010ffff", "z\U0010ffff\U0010ffff"])
def test_the_end_of_a_prefix_comes_after_all_that_begin_with_it(text: str) -> None:
    end = after_prefix(text)

    assert end is not None
    assert f"{text}\U0010ffff\U0010ffff\U0010ffff" < end
    end.encode()


def test_nothing_comes_after_the_greatest_characters() -> None:
    assert after_prefix("") is None
    assert after_prefix("\U0010ffff") is None
