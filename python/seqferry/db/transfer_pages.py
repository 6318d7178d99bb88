"""Pages over transfers, newest first, by any filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db import transfer_status
from seqferry.db.paging import Cursor, Page, TransferFilter, after_prefix, cut_page
from seqferry.db.tables import transfer
from seqferry.model.labels import compose

if TYPE_CHECKING:
    from seqferry.db.database import Database
    from seqferry.model.models import Status

_ORDER: Final = (transfer.c.created_at.desc(), transfer.c.id)


def read(
    connection: sa.Connection, database: Database, wanted: TransferFilter, cursor: Cursor | None, limit: int
) -> Page[Status]:
    """A page of transfers, as they are now."""
    query = sa.select(transfer.c.id).where(*conditions(wanted, is_sqlite=database.is_sqlite)).limit(limit + 1)
    if cursor is None:
        query = query.order_by(*_ORDER)
    else:
        here = connection.execute(
            sa.select(transfer.c.created_at).where(transfer.c.id == cursor.at)
        ).scalar_one_or_none()
        if here is None:
            return Page([], None, None)
        query = _from(query, here, cursor)
    ids, after, before = cut_page(list(connection.execute(query).scalars()), cursor, limit)
    if not ids:
        return Page([], None, None)
    found = transfer_status.statuses(connection, database, ids=ids, limit=len(ids))
    return Page(found, Cursor(ids[-1]) if after else None, Cursor(ids[0], backwards=True) if before else None)


def _from(query: sa.Select[Any], created_at: float, cursor: Cursor) -> sa.Select[Any]:
    at = transfer.c.created_at
    # The first part alone lets the index serve.
    if cursor.backwards:
        newer = sa.or_(at > created_at, transfer.c.id < cursor.at)
        return query.where(at >= created_at, newer).order_by(at, transfer.c.id.desc())
    older = sa.or_(at < created_at, transfer.c.id > cursor.at)
    return query.where(at <= created_at, older).order_by(*_ORDER)


def conditions(wanted: TransferFilter, *, is_sqlite: bool) -> list[sa.ColumnElement[bool]]:
    """Conditions that all hold of the transfers that a filter selects."""
    texts = (
        wanted.text,
        wanted.prefix,
        wanted.person,
        wanted.created_by,
        wanted.name,
        *(value for _, value in wanted.labels),
    )
    if any("\0" in text for text in texts if text):
        return [sa.false()]  # the databases search for no NUL
    conditions: list[sa.ColumnElement[bool]] = []
    places = (transfer.c.source_uri, transfer.c.target_uri)
    if wanted.states:
        conditions.append(transfer.c.state.in_(wanted.states))
    if wanted.text:
        found = [column.icontains(wanted.text, autoescape=True) for column in (transfer.c.id, *places)]
        conditions.append(sa.or_(*found, transfer.c.name.icontains(compose(wanted.text), autoescape=True)))
    if wanted.prefix:
        conditions.append(sa.or_(*(_starts_with(place, wanted.prefix) for place in places)))
    if wanted.person:
        conditions.append(transfer.c.created_by.icontains(wanted.person, autoescape=True))
    if wanted.created_by:
        start = sa.func.substr(transfer.c.created_by, 1, len(wanted.created_by))
        conditions.append(start == wanted.created_by)
    if wanted.name:
        conditions.append(transfer.c.name.icontains(compose(wanted.name), autoescape=True))
    conditions += [_has_label(key, value, is_sqlite=is_sqlite) for key, value in wanted.labels]
    if wanted.since is not None:
        conditions.append(transfer.c.created_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(transfer.c.created_at < wanted.until)
    return conditions


def _has_label(key: str, value: str | None, *, is_sqlite: bool) -> sa.ColumnElement[bool]:
    # No key of a label holds a character that ends the quotes of a path.
    found = (
        sa.func.json_extract(transfer.c.labels, f'$."{key}"')
        if is_sqlite
        else sa.cast(transfer.c.labels, sa.JSON)[key].as_string()
    )
    return found.is_not(None) if value is None else found == value


def _starts_with(column: sa.Column[Any], prefix: str) -> sa.ColumnElement[bool]:
    end = after_prefix(prefix)
    return sa.and_(column >= prefix, column < end) if end is not None else column >= prefix
