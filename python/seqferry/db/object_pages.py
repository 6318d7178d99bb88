"""Pages over the objects of a transfer, by any filter, at a cost that does not grow with the transfer.

Objects of a batch have ids beyond those of the batches before it (one planner adds batch after batch), and the counters
of a batch tell which states its objects are in. So a search walks the batches from the cursor on, passes over those
that hold nothing in the wanted state, and stops after ``SCANNED`` objects with a cursor to go on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.objects import HAS_ERROR, record_of
from seqferry.db.paging import Cursor, ObjectFilter, Page, after_prefix, cut
from seqferry.db.tables import batch, object_
from seqferry.model.models import OPEN_OBJECT_STATES, ObjectRecord

SCANNED: Final = 20_000
"""Objects that one page looks at, at most, rounded up to whole batches: some 20 ms on both databases."""

_BATCHES: Final = 1000
"""Batches that one page looks at, at most."""


def read(
    connection: sa.Connection, transfer_id: str, wanted: ObjectFilter, cursor: Cursor | None, limit: int
) -> Page[ObjectRecord]:
    """A page of the objects of a transfer."""
    is_sqlite = connection.dialect.name == "sqlite"
    if "\0" in (wanted.text or "") or (not is_sqlite and "\0" in (wanted.prefix or "")):
        return Page([], None, None)  # the databases search for no NUL, and PostgreSQL records none
    conditions = [object_.c.transfer_id == transfer_id, *_conditions(wanted)]
    if wanted.prefix is not None:
        return _by_key(connection, transfer_id, wanted, conditions, cursor, limit)
    if wanted.text is None and wanted.state in (None, "failed"):
        found = _select(connection, conditions, cursor, limit)
        return _page(found, cursor, limit)
    return _by_batch(connection, transfer_id, wanted, conditions, cursor, limit)


def _conditions(wanted: ObjectFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.state in OPEN_OBJECT_STATES:
        at_work = batch.c.state == "active"
        conditions += [object_.c.state.in_(OPEN_OBJECT_STATES), at_work if wanted.state == "active" else ~at_work]
    elif wanted.state is not None:
        conditions.append(object_.c.state == wanted.state)
        if wanted.state == "failed":
            conditions.append(HAS_ERROR)
    if wanted.text:
        columns = (object_.c.source_key, object_.c.target_key)
        conditions.append(sa.or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
    return conditions


def _rows(conditions: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    of_batch = sa.and_(batch.c.transfer_id == object_.c.transfer_id, batch.c.number == object_.c.batch_number)
    return sa.select(object_, batch.c.state.label("batch_state")).join(batch, of_batch).where(*conditions)


def _select(
    connection: sa.Connection,
    conditions: Sequence[sa.ColumnElement[bool]],
    cursor: Cursor | None,
    limit: int,
    order: sa.ColumnElement[int] = object_.c.id,
) -> list[ObjectRecord]:
    """Objects from the cursor on, in its direction, in the order of ids; one more than asked for if there is."""
    query = _rows(conditions).limit(limit + 1)
    if cursor is None:
        query = query.order_by(order)
    elif cursor.backwards:
        query = query.where(object_.c.id < int(cursor.at)).order_by(order.desc())
    else:
        query = query.where(object_.c.id > int(cursor.at)).order_by(order)
    return [record_of(row) for row in connection.execute(query)]


def _page(found: Sequence[ObjectRecord], cursor: Cursor | None, limit: int) -> Page[ObjectRecord]:
    entries, after, before = cut(found, cursor, limit)
    if not entries:
        return Page(entries, None, None)
    following = Cursor(str(entries[-1].row)) if after else None
    return Page(entries, following, Cursor(str(entries[0].row), backwards=True) if before else None)


# --- by batch ---------------------------------------------------------------------------------------------------------


_UNINDEXED_ID: Final = object_.c.id + 0
"""Orders as the id does. For the id itself both databases may walk all objects in its order instead of the batches."""


class _Walk(NamedTuple):
    numbers: list[int]
    is_end: bool
    """True when there are no more batches in this direction."""


def _by_batch(
    connection: sa.Connection,
    transfer_id: str,
    wanted: ObjectFilter,
    conditions: Sequence[sa.ColumnElement[bool]],
    cursor: Cursor | None,
    limit: int,
) -> Page[ObjectRecord]:
    walk = _walk(connection, transfer_id, wanted, cursor, limit)
    if not walk.numbers:
        return Page([], None, None)
    within = object_.c.batch_number.in_(walk.numbers)
    found = _select(connection, [*conditions, within], cursor, limit, _UNINDEXED_ID)
    page = _page(found, cursor, limit)
    if walk.is_end or len(found) > limit:
        return page
    # Not all was looked at: the next page goes on behind the last batch that was.
    backwards = cursor is not None and cursor.backwards
    last = sa.func.min(_UNINDEXED_ID) if backwards else sa.func.max(_UNINDEXED_ID)
    edge = connection.execute(
        sa.select(last).where(object_.c.transfer_id == transfer_id, object_.c.batch_number == walk.numbers[-1])
    ).scalar_one()
    if backwards:
        return Page(page.entries, page.next, Cursor(str(edge), backwards=True))
    return Page(page.entries, Cursor(str(edge)), page.previous)


def _walk(
    connection: sa.Connection, transfer_id: str, wanted: ObjectFilter, cursor: Cursor | None, limit: int
) -> _Walk:
    """Batches from the cursor on that may hold what is wanted, as many as one page looks at."""
    backwards = cursor is not None and cursor.backwards
    held = _held(wanted.state)
    query = sa.select(batch.c.number, batch.c.objects, held.label("held")).where(
        batch.c.transfer_id == transfer_id, held > 0
    )
    if wanted.state in OPEN_OBJECT_STATES:
        query = query.where((batch.c.state == "active") if wanted.state == "active" else (batch.c.state != "active"))
    if cursor is not None and (number := _batch_of(connection, transfer_id, cursor)) is not None:
        query = query.where(batch.c.number <= number if backwards else batch.c.number >= number)
    order = batch.c.number.desc() if backwards else batch.c.number
    rows = connection.execute(query.order_by(order).limit(_BATCHES + 1)).all()
    numbers: list[int] = []
    scanned = matches = 0
    for index, row in enumerate(rows):
        # The first one may lie before the cursor, and counts for nothing. What text is in a key, no counter tells.
        enough = not wanted.text and matches > limit
        if index == _BATCHES or scanned >= SCANNED or enough:
            return _Walk(numbers, is_end=False)
        numbers.append(row.number)
        if index or cursor is None:
            scanned += row.objects
            matches += row.held
    return _Walk(numbers, is_end=True)


def _batch_of(connection: sa.Connection, transfer_id: str, cursor: Cursor) -> int | None:
    here = (object_.c.transfer_id == transfer_id, object_.c.id == int(cursor.at))
    return connection.execute(sa.select(object_.c.batch_number).where(*here)).scalar_one_or_none()


def _held(state: str | None) -> sa.ColumnElement[int]:
    """Number of objects of a batch in this state, as an SQL expression; None counts all."""
    if state is None:
        return batch.c.objects
    if state in OPEN_OBJECT_STATES:
        return batch.c.objects - batch.c.done - batch.c.skipped - batch.c.failed - batch.c.cancelled
    return batch.c[state]


# --- by key -----------------------------------------------------------------------------------------------------------

_KEY_ORDER: Final = (object_.c.source_key, object_.c.version_id)


def _by_key(
    connection: sa.Connection,
    transfer_id: str,
    wanted: ObjectFilter,
    conditions: Sequence[sa.ColumnElement[bool]],
    cursor: Cursor | None,
    limit: int,
) -> Page[ObjectRecord]:
    backwards = cursor is not None and cursor.backwards
    within = [object_.c.transfer_id == transfer_id, *_within(wanted.prefix or "")]
    if cursor is not None:
        here = connection.execute(
            sa.select(*_KEY_ORDER).where(object_.c.transfer_id == transfer_id, object_.c.id == int(cursor.at))
        ).one_or_none()
        if here is None:
            return Page([], None, None)
        place = sa.tuple_(sa.literal(here.source_key), sa.literal(here.version_id))
        within.append(sa.tuple_(*_KEY_ORDER) < place if backwards else sa.tuple_(*_KEY_ORDER) > place)
    order = [column.desc() if backwards else column.asc() for column in _KEY_ORDER]
    edge = None
    if wanted.state is not None or wanted.text:
        edge = _edge(connection, within, order)
    query = _rows([*conditions, *within]).order_by(*order).limit(limit + 1)
    if edge is not None:
        place = sa.tuple_(sa.literal(edge.source_key), sa.literal(edge.version_id))
        query = query.where(sa.tuple_(*_KEY_ORDER) >= place if backwards else sa.tuple_(*_KEY_ORDER) <= place)
    found = [record_of(row) for row in connection.execute(query)]
    page = _page(found, cursor, limit)
    if edge is None or len(found) > limit:
        return page
    if backwards:
        return Page(page.entries, page.next, Cursor(str(edge.id), backwards=True))
    return Page(page.entries, Cursor(str(edge.id)), page.previous)


def _edge(
    connection: sa.Connection, within: Sequence[sa.ColumnElement[bool]], order: Sequence[sa.UnaryExpression[Any]]
) -> sa.Row[*tuple[Any, ...]] | None:
    """The object at which one page stops looking; None when the rest is fewer."""
    # The key alone first: that is in the index.
    at = connection.execute(
        sa.select(*_KEY_ORDER).where(*within).order_by(*order).offset(SCANNED).limit(1)
    ).one_or_none()
    if at is None:
        return None
    same = (object_.c.source_key == at.source_key, object_.c.version_id == at.version_id)
    row: sa.Row[*tuple[Any, ...]] = connection.execute(sa.select(object_.c.id, *_KEY_ORDER).where(*within, *same)).one()
    return row


def _within(prefix: str) -> list[sa.ColumnElement[bool]]:
    bounds: list[sa.ColumnElement[bool]] = [object_.c.source_key >= prefix]
    end = after_prefix(prefix)
    return bounds if end is None else [*bounds, object_.c.source_key < end]
