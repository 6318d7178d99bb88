"""Pages over the objects of a transfer, by any filter, at a cost that does not grow with the transfer.

Objects of a batch have ids beyond those of the batches before it (one planner adds batch after batch), and the counters
of a batch tell which states its objects are in. So a search walks the batches from the cursor on, passes over those
that hold nothing in the requested state, and stops after ``MAX_SCANNED`` objects with a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.failed_objects import HAS_ERROR
from seqferry.db.objects import record_of
from seqferry.db.paging import AS_FOUND, Cursor, ObjectFilter, ObjectOrder, Page, after_prefix, cut_page
from seqferry.db.tables import SOURCE, batch, object_
from seqferry.model.errors import UsageError
from seqferry.model.models import OPEN_OBJECT_STATES, ObjectRecord

MAX_SCANNED: Final = 20_000
"""Objects that one page reads, at most, rounded up to whole batches: some 20 ms on both databases."""

_BATCHES: Final = 1000
"""Batches that one page reads, at most."""


MAX_SORTED: Final = 100_000
"""Objects that are sorted, or counted one by one, for one page at most: some 100 ms on PostgreSQL."""

_END: Final = "9" * 18
"""The place behind all objects: no row has this id, and each cursor may have it."""


def read(
    connection: sa.Connection,
    transfer_id: str,
    wanted: ObjectFilter,
    cursor: Cursor | None,
    limit: int,
    order: ObjectOrder = AS_FOUND,
) -> Page[ObjectRecord]:
    """A page of the objects of a transfer.

    Raises:
        UsageError: the order or the offset would take too long for so many objects.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if "\0" in (wanted.text or "") or (not is_sqlite and "\0" in (wanted.prefix or "")):
        return Page([], None, None)  # the databases search for no NUL, and PostgreSQL records none
    search = _Search(connection, transfer_id, wanted, order)
    search.check(cursor)
    if cursor is None and order.offset:
        before = search.at(order.offset - 1)
        if before is None:
            return Page([], None, None)
        cursor = Cursor(str(before))
    if not order.descending:
        return search.page(cursor, limit)
    page = search.page(Cursor(_END, backwards=True) if cursor is None else _reverse(cursor), limit)
    return Page(
        page.entries[::-1],
        None if page.previous is None else _reverse(page.previous),
        None if page.next is None or cursor is None else _reverse(page.next),
    )


def _reverse(cursor: Cursor) -> Cursor:
    return Cursor(cursor.at, backwards=not cursor.backwards)


class _Search:
    """Contents and order of a list. Pages are read in ascending order; ``read`` turns them round."""

    def __init__(self, connection: sa.Connection, transfer_id: str, wanted: ObjectFilter, order: ObjectOrder) -> None:
        self._connection = connection
        self._transfer_id = transfer_id
        self._sort = order.by or ("found" if wanted.prefix is None else "key")
        self._descending = order.descending
        # The order of keys is that of a search for all of them.
        self._wanted = wanted if self._sort != "key" else replace(wanted, prefix=wanted.prefix or "")
        self._offset = order.offset
        self._conditions = [object_.c.transfer_id == transfer_id, *_conditions(wanted)]

    def check(self, cursor: Cursor | None) -> None:
        """Raise UsageError for what would take too long, and for what contradicts itself."""
        if self._offset and cursor is not None:
            raise UsageError("A page begins at a cursor or at an offset; leave one of them out.").about("cursor")
        if self._sort == "found" and self._wanted.prefix is not None:
            raise UsageError(
                "Objects with a prefix are read in the order of their keys; leave the sort out, or the prefix."
            ).about("sort")
        if self._sort in ("size", "time"):
            self._refuse_large(f"Sorting by {self._sort}")
        elif self._offset and not self._is_counted():
            self._refuse_large("An offset into this search")

    def _is_counted(self) -> bool:
        """True when an index or the counters of batches lead to the offset."""
        if self._wanted.text:
            return False
        return self._sort == "found" or (self._wanted.state is None and self._offset <= MAX_SORTED)

    def _refuse_large(self, what: str) -> None:
        objects = self._count_scanned()
        if objects > MAX_SORTED:
            raise UsageError(
                f"{what} would look at {objects:,} objects, and {MAX_SORTED:,} is the most. Ask for those that failed "
                "(state=failed), or go by next_cursor in the order of finding or of keys."
            ).about("sort", "offset")

    def _count_scanned(self) -> int:
        """Objects that a search reads if only the counters of batches narrow it."""
        state = self._wanted.state
        # Failed objects have an index of their own: no others are read.
        objects = _count_in_state(state) if state == "failed" else batch.c.objects
        count = sa.select(sa.func.coalesce(sa.func.sum(objects), 0)).where(*_batches(self._transfer_id, state))
        return self._connection.execute(count).scalar_one()

    def page(self, cursor: Cursor | None, limit: int) -> Page[ObjectRecord]:
        connection, wanted = self._connection, self._wanted
        if self._sort in ("size", "time") or (self._sort == "key" and self._has_few_failed()):
            return _by_value(connection, self._select_ids(), _VALUES[self._sort], cursor, limit)
        if self._sort == "key":
            return _by_key(connection, self._transfer_id, wanted, self._conditions, cursor, limit)
        if wanted.text is None and wanted.state in (None, "failed"):
            return _page(_select(connection, self._conditions, cursor, limit), cursor, limit)
        return _by_batch(connection, self._transfer_id, wanted, self._conditions, cursor, limit)

    def _has_few_failed(self) -> bool:
        """True when failed objects are requested, and sorting them costs less than finding them among all keys."""
        return self._wanted.state == "failed" and self._count_scanned() <= MAX_SCANNED

    def at(self, place: int) -> int | None:
        """The id of the object at this place of the list, from zero on; None behind its end."""
        if self._sort == "found" and not self._wanted.text:
            return self._at_by_batch(place)
        is_indexed = self._sort == "key" and not self._wanted.text and self._wanted.state is None
        columns = _KEY_ORDER if is_indexed else _VALUES[self._sort]
        return self._find(self._select_ids(), columns, place)

    def _at_by_batch(self, place: int) -> int | None:
        """As ``at``: the counters tell the batch, and within it the objects are counted."""
        held = _count_in_state(self._wanted.state)
        order = batch.c.number.desc() if self._descending else batch.c.number
        until = sa.func.sum(held).over(order_by=order)
        sums = sa.select(batch.c.number, held.label("held"), until.label("until"))
        sums = sums.where(*_batches(self._transfer_id, self._wanted.state))
        counted = sums.subquery()
        found = self._connection.execute(
            sa.select(counted).where(counted.c.until > place).order_by(counted.c.until).limit(1)
        ).one_or_none()
        if found is None:
            return None
        query = sa.select(object_.c.id).where(*self._conditions, object_.c.batch_number == found.number)
        if self._wanted.state in OPEN_OBJECT_STATES:
            query = query.join(batch, _OF_BATCH)
        return self._find(query, (_UNINDEXED_ID,), place - (found.until - found.held))

    def _find(self, query: sa.Select[Any], columns: Sequence[sa.ColumnElement[Any]], place: int) -> int | None:
        order = [column.desc() if self._descending else column.asc() for column in columns]
        return self._connection.execute(query.order_by(*order).offset(place).limit(1)).scalar_one_or_none()

    def _select_ids(self) -> sa.Select[tuple[int]]:
        """The ids of the list. Without a need the batches are left out: SQLite would begin with them."""
        query = sa.select(object_.c.id).where(*self._conditions)
        if self._wanted.prefix:
            # Those that failed are found by their own index, and not by that of all keys.
            key = _VALUES["key"][0] if self._wanted.state == "failed" else object_.c.source_key
            query = query.where(*_within(self._wanted.prefix, key))
        return query.join(batch, _OF_BATCH) if self._wanted.state in OPEN_OBJECT_STATES else query


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


_OF_BATCH: Final = sa.and_(batch.c.transfer_id == object_.c.transfer_id, batch.c.number == object_.c.batch_number)


def _rows(conditions: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    return sa.select(object_, batch.c.state.label("batch_state")).join(batch, _OF_BATCH).where(*conditions)


def _select(
    connection: sa.Connection,
    conditions: Sequence[sa.ColumnElement[bool]],
    cursor: Cursor | None,
    limit: int,
    order: sa.ColumnElement[int] = object_.c.id,
) -> list[ObjectRecord]:
    """Objects from the cursor on, in its direction, in the order of ids; one more than ``limit`` if there is."""
    query = _rows(conditions).limit(limit + 1)
    if cursor is None:
        query = query.order_by(order)
    elif cursor.backwards:
        query = query.where(object_.c.id < int(cursor.at)).order_by(order.desc())
    else:
        query = query.where(object_.c.id > int(cursor.at)).order_by(order)
    return [record_of(row) for row in connection.execute(query)]


def _page(found: Sequence[ObjectRecord], cursor: Cursor | None, limit: int) -> Page[ObjectRecord]:
    entries, after, before = cut_page(found, cursor, limit)
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
    # Not all batches were read: the next page begins after the last one that was.
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
    held = _count_in_state(wanted.state)
    query = sa.select(batch.c.number, batch.c.objects, held.label("held"))
    query = query.where(*_batches(transfer_id, wanted.state))
    if cursor is not None and (number := _batch_of(connection, transfer_id, cursor)) is not None:
        query = query.where(batch.c.number <= number if backwards else batch.c.number >= number)
    order = batch.c.number.desc() if backwards else batch.c.number
    rows = connection.execute(query.order_by(order).limit(_BATCHES + 1)).all()
    numbers: list[int] = []
    scanned = matches = 0
    for index, row in enumerate(rows):
        # The first batch may lie before the cursor, and does not count. No counter shows matches of a text.
        enough = not wanted.text and matches > limit
        if index == _BATCHES or scanned >= MAX_SCANNED or enough:
            return _Walk(numbers, is_end=False)
        numbers.append(row.number)
        if index or cursor is None:
            scanned += row.objects
            matches += row.held
    return _Walk(numbers, is_end=True)


def _batch_of(connection: sa.Connection, transfer_id: str, cursor: Cursor) -> int | None:
    here = (object_.c.transfer_id == transfer_id, object_.c.id == int(cursor.at))
    return connection.execute(sa.select(object_.c.batch_number).where(*here)).scalar_one_or_none()


def _batches(transfer_id: str, state: str | None) -> list[sa.ColumnElement[bool]]:
    """Conditions of the batches that hold objects in this state."""
    found = [batch.c.transfer_id == transfer_id, _count_in_state(state) > 0]
    if state in OPEN_OBJECT_STATES:
        found.append((batch.c.state == "active") if state == "active" else (batch.c.state != "active"))
    return found


def _count_in_state(state: str | None) -> sa.ColumnElement[int]:
    """Number of objects of a batch in this state, as an SQL expression; None counts all."""
    if state is None:
        return batch.c.objects
    if state in OPEN_OBJECT_STATES:
        return batch.c.objects - batch.c.done - batch.c.skipped - batch.c.failed - batch.c.cancelled
    return batch.c[state]


# --- by key -----------------------------------------------------------------------------------------------------------

_KEY_ORDER: Final = tuple(object_.c[name] for name in SOURCE)


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
    here = None
    if cursor is not None:
        here = connection.execute(
            sa.select(*_KEY_ORDER).where(object_.c.transfer_id == transfer_id, object_.c.id == int(cursor.at))
        ).one_or_none()
        if here is None and cursor.at != _END:
            return Page([], None, None)
    if cursor is not None and here is not None:
        place = sa.tuple_(*map(sa.literal, here))
        within.append(sa.tuple_(*_KEY_ORDER) < place if backwards else sa.tuple_(*_KEY_ORDER) > place)
    order = [column.desc() if backwards else column.asc() for column in _KEY_ORDER]
    edge = None
    if wanted.state is not None or wanted.text:
        edge = _edge(connection, within, order)
    query = _rows([*conditions, *within]).order_by(*order).limit(limit + 1)
    if edge is not None:
        place = sa.tuple_(*map(sa.literal, edge[1:]))
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
        sa.select(*_KEY_ORDER).where(*within).order_by(*order).offset(MAX_SCANNED).limit(1)
    ).one_or_none()
    if at is None:
        return None
    same = (column == getattr(at, column.name) for column in _KEY_ORDER)
    row: sa.Row[*tuple[Any, ...]] = connection.execute(sa.select(object_.c.id, *_KEY_ORDER).where(*within, *same)).one()
    return row


def _within(prefix: str, key: sa.ColumnElement[str] = object_.c.source_key) -> list[sa.ColumnElement[bool]]:
    bounds: list[sa.ColumnElement[bool]] = [key >= prefix]
    end = after_prefix(prefix)
    return bounds if end is None else [*bounds, key < end]


# --- by a value -------------------------------------------------------------------------------------------------------

_NOT_ENDED: Final = 1e18
"""Seconds, later than any end."""

# Expressions of columns: for the columns themselves a database may walk an index over all objects in their order.
_VALUES: Final[dict[str, tuple[sa.ColumnElement[Any], ...]]] = {
    "found": (_UNINDEXED_ID,),
    "key": tuple(column + ("" if isinstance(column.type, sa.Text) else 0) for column in _KEY_ORDER),
    "size": (object_.c.size, object_.c.id),
    "time": (sa.func.coalesce(object_.c.ended_at, _NOT_ENDED), object_.c.id),
}


def _by_value(
    connection: sa.Connection,
    chosen: sa.Select[tuple[int]],
    values: Sequence[sa.ColumnElement[Any]],
    cursor: Cursor | None,
    limit: int,
) -> Page[ObjectRecord]:
    """A page of chosen ids in an order that no index has: for few objects."""
    backwards = cursor is not None and cursor.backwards
    if cursor is not None:
        here = connection.execute(sa.select(*values).where(object_.c.id == int(cursor.at))).one_or_none()
        if here is None and cursor.at != _END:
            return Page([], None, None)
        if here is not None:
            order, place = sa.tuple_(*values), sa.tuple_(*map(sa.literal, here))
            chosen = chosen.where(order < place if backwards else order > place)
    in_order = [value.desc() if backwards else value.asc() for value in values]
    # Whole rows are read of the page alone, so that no others are carried through the sort.
    ids = list(connection.execute(chosen.order_by(*in_order).limit(limit + 1)).scalars())
    found = {row.id: record_of(row) for row in connection.execute(_rows([object_.c.id.in_(ids)]))}
    return _page([found[one] for one in ids], cursor, limit)
