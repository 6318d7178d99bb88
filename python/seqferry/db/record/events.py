"""The record of acts. Per transfer, each event holds the hash of the one before.

The hashes are made with the audit key (``audit_key``) where there is one, so that a writer of the database without
the key cannot forge them; without a key they detect accidental edits only. Submission, end, and later events go into
the ledger over all transfers as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, cast

import sqlalchemy as sa

from seqferry.db import changes
from seqferry.db.record import ledger, signing
from seqferry.db.tables import event, transfer
from seqferry.model.models import Event
from seqferry.settings.audit_key import AuditKey

FIRST: Final = "0" * 64
"""Value that the first event of a transfer holds in place of a hash before it."""

SUBMITTED: Final = "submitted"
LIST_READ: Final = "list_read"
"""The list of its objects was read, by the run of a schedule or by planning: its name and the SHA-256 of its bytes."""


def append(
    connection: sa.Connection,
    transfer_id: str,
    at: float,
    kind: str,
    actor: str,
    data: dict[str, Any] | None = None,
    *,
    is_ended: bool | None = None,
) -> None:
    """Add an event, in the caller's transaction. Takes the lock of the transfer's row, so that numbers do not clash.

    Args:
        is_ended: whether the transfer has ended, where the caller has the lock already.

    Raises:
        ConfigError: the record in this database is kept with an audit key that this process has not.
    """
    if is_ended is None:
        of = connection.execute(_LOCKED, {"of": transfer_id}).one_or_none()
        is_ended = of is not None and of.ended_at is not None
    added = append_to_chain(connection, event, event.c.transfer_id, transfer_id, at, kind, actor, data or {})
    if is_ended:
        ledger.append(connection, added.key, transfer_id, added.number, kind, added.hash, at)
    changes.notify(connection)


_LOCKED: Final = sa.select(transfer.c.ended_at).where(transfer.c.id == sa.bindparam("of")).with_for_update()


def append_first(
    connection: sa.Connection,
    transfer_id: str,
    at: float,
    kind: str,
    actor: str,
    data: Mapping[str, Any],
    rows: Iterable[sa.Insert],
) -> None:
    """Add a transfer by ``rows`` and its first event; on PostgreSQL in one statement.

    Raises:
        ConfigError: as ``append``.
    """
    added, values = _chained(connection, transfer_id, 1, FIRST, at, kind, actor, data)
    insertion = event.insert().values(transfer_id=transfer_id, **values)
    if connection.dialect.name == "sqlite":
        for row in rows:
            connection.execute(row)
    else:
        insertion = insertion.add_cte(*(row.cte(f"row_{number}") for number, row in enumerate(rows)))
    connection.execute(insertion)
    ledger.append(connection, added.key, transfer_id, added.number, kind, added.hash, at)
    changes.notify(connection)


class AppendedEvent(NamedTuple):
    """An event that was added to a chain, and the key that it was signed with."""

    number: int
    hash: str
    key: AuditKey | None


def append_to_chain(
    connection: sa.Connection,
    table: sa.Table,
    owner: sa.Column[str],
    owner_id: str,
    at: float,
    kind: str,
    actor: str,
    data: Mapping[str, Any],
    **columns: Any,
) -> AppendedEvent:
    """Add an event to the chain of its owner. The caller keeps others from adding to it meanwhile.

    Args:
        owner: the column of the table that names the owner.
        columns: values of further columns, which the hash does not cover.

    Raises:
        ConfigError: the record in this database is kept with an audit key that this process has not.
    """
    last = connection.execute(_query_last(table, owner), {"of": owner_id}).one_or_none()
    number, previous = (last.number + 1, last.hash) if last is not None else (1, FIRST)
    added, values = _chained(connection, owner_id, number, previous, at, kind, actor, data)
    connection.execute(table.insert(), {owner.name: owner_id, **values, **columns})
    return added


@cache
def _query_last(table: sa.Table, owner: sa.Column[str]) -> sa.Select[Any, Any]:
    found = sa.select(table.c.number, table.c.hash).where(owner == sa.bindparam("of"))
    return found.order_by(table.c.number.desc()).limit(1)


def _chained(
    connection: sa.Connection,
    owner_id: str,
    number: int,
    previous: str,
    at: float,
    kind: str,
    actor: str,
    data: Mapping[str, Any],
) -> tuple[AppendedEvent, dict[str, Any]]:
    """An event behind the one with the hash ``previous``, and the values of its row."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True)
    key = signing.current_key(connection)
    found = event_hash(owner_id, number, at, kind, actor, text, previous, key)
    values = {
        "number": number,
        "at": at,
        "kind": kind,
        "actor": actor,
        "data": text,
        "previous": previous,
        "hash": found,
        "key_id": None if key is None else key.id,
    }
    return AppendedEvent(number, found, key), values


def event_hash(
    transfer_id: str,
    number: int,
    at: float,
    kind: str,
    actor: str,
    data: str,
    previous: str,
    key: AuditKey | None = None,
) -> str:
    """HMAC with the key, or plain SHA-256, over a form of the event that both databases give back unchanged."""
    values = [transfer_id, number, at, kind, actor, data, previous]
    if key is not None:
        return signing.sign(key, "event", *values)
    form = json.dumps(values, ensure_ascii=False)
    return hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


def read_data(text: str) -> dict[str, Any]:
    """Data of an event; what is none, since it was changed in the database, under the name ``unreadable``."""
    try:
        found: Any = json.loads(text)
    except (ValueError, TypeError):
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"unreadable": str(text)[:_SHOWN]}


_SHOWN: Final = 200
"""Characters of data that cannot be read."""


def read(connection: sa.Connection, transfer_id: str, after: int, *, kind: str | None = None) -> list[Event]:
    """The events of a transfer behind a number, in their order; with ``kind`` only those."""
    wanted = sa.select(event).where(event.c.transfer_id == transfer_id, event.c.number > after)
    if kind is not None:
        wanted = wanted.where(event.c.kind == kind)
    rows = connection.execute(wanted.order_by(event.c.number))
    return [
        Event(number=row.number, at=row.at, kind=row.kind, actor=row.actor, data=read_data(row.data), hash=row.hash)
        for row in rows
    ]


def last(connection: sa.Connection, transfer_id: str, kind: str) -> dict[str, Any] | None:
    """Data of the last event of a kind; None when there is none."""
    data = connection.execute(
        sa.select(event.c.data)
        .where(event.c.transfer_id == transfer_id, event.c.kind == kind)
        .order_by(event.c.number.desc())
        .limit(1)
    ).scalar()
    return None if data is None else json.loads(data)


class RecordedEvent(NamedTuple):
    """An event of one of several transfers."""

    transfer_id: str
    at: float
    data: dict[str, Any]


def read_kind(connection: sa.Connection, transfer_ids: Iterable[str], kind: str) -> list[RecordedEvent]:
    """The events of a kind of each of these transfers, in their order."""
    wanted = sa.select(event.c.transfer_id, event.c.at, event.c.data)
    wanted = wanted.where(event.c.transfer_id.in_(list(transfer_ids)), event.c.kind == kind)
    rows = connection.execute(wanted.order_by(event.c.transfer_id, event.c.number))
    return [RecordedEvent(row.transfer_id, row.at, read_data(row.data)) for row in rows]


def count_keys(connection: sa.Connection, transfer_id: str, kind: str) -> int:
    """Number of keys that the events of a kind name together; events are read one at a time."""
    rows = connection.execute(
        sa.select(event.c.data)
        .where(event.c.transfer_id == transfer_id, event.c.kind == kind)
        .execution_options(yield_per=1)
    )
    return sum(len(json.loads(data)["keys"]) for data in rows.scalars())


def newest(connection: sa.Connection, transfer_ids: Iterable[str]) -> dict[str, int]:
    """The number of the newest event of each of the transfers."""
    query = sa.select(event.c.transfer_id, sa.func.max(event.c.number).label("newest"))
    rows = connection.execute(query.where(event.c.transfer_id.in_(list(transfer_ids))).group_by(event.c.transfer_id))
    return {row.transfer_id: row.newest for row in rows}
