"""Objects of a transfer in other orders, and from an offset on."""

from __future__ import annotations

import random
from itertools import product
from typing import Any, get_args

import pytest
import sqlalchemy as sa
from control import add_batch, planned, results, spec_number
from http_client import http_of

from seqferry.db import batches, object_pages
from seqferry.db.paging import Cursor, ObjectFilter, ObjectOrder, ObjectSort
from seqferry.db.tables import object_
from seqferry.model.errors import UsageError
from seqferry.service.service import Service

pytestmark = pytest.mark.every_database  # pages are SQL of each

FILTERS = [
    ObjectFilter(),
    ObjectFilter(state="failed"),
    ObjectFilter(state="done"),
    ObjectFilter(text="x_", state="failed"),
    ObjectFilter(state="active"),
    ObjectFilter(text="x_"),
    ObjectFilter(prefix="run/b/"),
    ObjectFilter(prefix="run/", state="failed"),
]


@pytest.fixture
def filled(service: Service, rng: random.Random) -> tuple[str, list[Any]]:
    """A transfer of 7 batches with equal sizes and times among its objects, and its rows in the order of finding."""
    transfer_id = service.submit(spec_number(0), actor="ada")
    keys = [f"{part}{number}" for number in range(7) for part in ("a/X_", "b/%_", "B/ä", "c/\U0010ffff")]
    rng.shuffle(keys)
    with service.database.write() as connection:
        for number in range(0, len(keys), 4):
            group = keys[number : number + 4]
            batch_number = add_batch(connection, transfer_id, [planned(key, rng.randrange(4)) for key in group])
            assert batch_number is not None
            run = batches.begin_batch(connection, transfer_id, batch_number, 1.0)
            assert run is not None
            query = sa.select(object_.c.id, object_.c.source_key).where(object_.c.batch_number == batch_number)
            # By the number in the key, so that each part of the keys has each of them.
            states = ("done", "failed", "pending")
            fates = [(row.id, states[int(row.source_key[-1]) % 3]) for row in connection.execute(query)]
            ends = [{"id": one, "state": fate, "ended_at": 2.0 + one % 3} for one, fate in fates if fate != "pending"]
            if ends:
                batches.record(connection, [(run, results(*ends))])
        return transfer_id, list(connection.execute(sa.select(object_).order_by(object_.c.id)))


def expected(rows: list[Any], wanted: ObjectFilter, by: ObjectSort, *, descending: bool) -> list[str]:
    found = [
        row
        for row in rows
        if wanted.state in (None, row.state if row.state != "pending" else "active")
        and (wanted.text or "") in row.source_key.lower()
        and row.source_key.startswith(wanted.prefix or "")
    ]
    values = {
        "found": lambda row: row.id,
        "key": lambda row: row.source_key.encode(),
        "size": lambda row: (row.size, row.id),
        "time": lambda row: (row.ended_at is None, row.ended_at, row.id),
    }
    return [row.source_key for row in sorted(found, key=values[by], reverse=descending)]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_pages_are_in_the_order_that_was_asked_for_from_any_offset_on(
    service: Service, filled: tuple[str, list[Any]], wanted: ObjectFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_id, rows = filled
    monkeypatch.setattr(object_pages, "MAX_SCANNED", 8)
    # The objects of one transfer for all orders: nothing here changes them.
    for by, descending in product(get_args(ObjectSort), (False, True)):
        if by == "found" and wanted.prefix is not None:
            with pytest.raises(UsageError, match="in the order of their keys"):
                service.object_page(transfer_id, wanted, order=ObjectOrder(by, descending))
            continue
        right = expected(rows, wanted, by, descending=descending)
        assert right
        for offset in (0, 1, 5, len(right) - 1, len(right), len(right) + 9):
            walked = _walk(service, transfer_id, wanted, ObjectOrder(by, descending, offset))
            assert walked == (right[offset:], right if offset < len(right) else None), (by, descending, offset)


def _walk(
    service: Service, transfer_id: str, wanted: ObjectFilter, order: ObjectOrder
) -> tuple[list[str], list[str] | None]:
    """Keys from the offset of the order on, by pages; and all keys, by the pages back from the last that has any."""
    further = ObjectOrder(order.by, order.descending)
    there: list[str] = []
    cursor: Cursor | None = None
    last = None
    while True:
        page = service.object_page(transfer_id, wanted, cursor=cursor, limit=3, order=further if cursor else order)
        there += [one.source_key for one in page.entries]
        assert len(page.entries) <= 3
        last = page if page.entries else last
        if page.next is None:
            break
        cursor = page.next
    if last is None:
        return there, None
    back, cursor = [one.source_key for one in last.entries], last.previous
    while cursor is not None:
        page = service.object_page(transfer_id, wanted, cursor=cursor, limit=3, order=further)
        back = [*(one.source_key for one in page.entries), *back]
        cursor = page.previous
    return there, back


def test_what_would_sort_or_count_too_many_objects_is_refused_with_the_reason(
    service: Service, filled: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer_id, rows = filled
    failed = sum(row.state == "failed" for row in rows)
    monkeypatch.setattr(object_pages, "MAX_SORTED", failed)
    route = f"/api/v1/transfers/{transfer_id}/objects"
    with http_of(service) as client:

        def asked(**query: Any) -> tuple[int, str, int]:
            answer = client.get(route, params=query)
            told = answer.json()
            return answer.status_code, told.get("detail", ""), len(told.get("objects", []))

        for query in (
            {"sort": "size"},
            {"sort": "time", "state": "done"},
            {"text": "x", "offset": 1},
            {"state": "done", "sort": "key", "offset": 1},
            {"sort": "key", "offset": failed + 1},
        ):
            code, detail, _ = asked(**query)
            assert (code, f"and {failed} is the most" in detail) == (400, True), (query, detail)
        for query, count in (
            ({"sort": "size", "state": "failed"}, failed),
            ({"offset": len(rows) - 1}, 1),
            ({"offset": 2, "state": "failed", "order": "desc"}, failed - 2),
            ({"sort": "key", "offset": failed}, len(rows) - failed),
        ):
            assert asked(**query)[::2] == (200, count), query
        assert asked(offset=1, cursor="a1")[0] == 400
        assert asked(offset=-1)[0] == 422
        assert asked(sort="etag")[0] == 422
