"""Events of all transfers in an order that misses none: a position is a count of ledger entries and a few numbers.

Within a transfer events have numbers without gaps. Over all transfers the ledger has: each submission, each end and
each event after an end is an entry, numbered in the order of commits, since its lock is held until the commit. So a
position needs numbers of its own only for transfers that are unfinished, and of those only for such with more than
their submission. A clock or a sequence would not do: a transaction may commit after others with greater values.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import event, ledger, transfer
from seqferry.model.frozen import frozen
from seqferry.model.models import Event

POSITION_PATTERN: Final = r"^[0-9]{1,15}(~[A-Za-z0-9_-]{22}\.[0-9]{1,9}){0,150}$"
"""The form of a position as text."""

_MOST_NUMBERS: Final = 150
"""Most transfers in the text of a position. Those with the fewest events are left out; their events come again."""

MAX_DATA: Final = 64 * 1024
"""Characters of the data of an event: those of a submission or a removal may name 100,000 keys."""

_ENTRIES: Final = 1000
_IDS: Final = 500


@frozen
class Position:
    """Position in the feed: of each transfer, all events up to a number have been seen.

    Attributes:
        entries: of the ledger, all up to this number.
        numbers: of the last event that was seen of a transfer, where the ledger does not say so.
    """

    entries: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        most = sorted(self.numbers.items(), key=lambda one: -one[1])[:_MOST_NUMBERS]
        return "~".join([str(self.entries), *(f"{_short(each)}.{number}" for each, number in most)])

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parses a text of the form ``POSITION``."""
        entries, *numbers = text.split("~")
        pairs = (one.rsplit(".", 1) for one in numbers)
        return cls(int(entries), {_whole(short): int(number) for short, number in pairs})


@frozen
class FeedEvent:
    """An event, and the position behind it. Large data are left out: ``{"left_out": <characters>}``."""

    transfer_id: str
    event: Event
    position: Position


def newest_position(connection: sa.Connection) -> Position:
    """The position behind all events. To be read in one snapshot."""
    entries = connection.execute(sa.select(sa.func.max(ledger.c.number))).scalar() or 0
    newest = (
        sa.select(sa.func.max(event.c.number)).where(event.c.transfer_id == transfer.c.id).correlate(transfer)
    ).scalar_subquery()
    rows = connection.execute(sa.select(transfer.c.id, newest).where(transfer.c.ended_at.is_(None)))
    return Position(entries, {row.id: number for row in rows if (number := row[1]) is not None and number > 1})


def read_between(
    connection: sa.Connection, before: Position, until: Position, wanted: Collection[str] | None, limit: int
) -> tuple[list[FeedEvent], Position]:
    """Events behind one position and up to a later one, and the position that was reached.

    Each transfer's are in their order. That position is ``until`` itself when there are no more.

    Args:
        wanted: whole ids of the transfers whose events are of interest; None: all.
        limit: events at most.
    """
    rows = connection.execute(
        sa.select(ledger.c.number, ledger.c.transfer_id, ledger.c.event_number)
        .where(ledger.c.number > before.entries, ledger.c.number <= until.entries)
        .order_by(ledger.c.number)
        .limit(_ENTRIES)
    ).all()
    changed = {row.transfer_id for row in rows} | {
        each
        for each in before.numbers.keys() | until.numbers.keys()
        if before.numbers.get(each) != until.numbers.get(each)
    }
    if wanted is not None:
        changed.intersection_update(wanted)
    seen, latest = _read_seen(connection, before, changed), _read_seen(connection, until, changed)
    numbers = dict(before.numbers)
    found: list[tuple[str, Event]] = []
    for each in sorted(changed):
        if seen[each] < latest[each] and len(found) <= limit:
            found += [(each, one) for one in _read(connection, each, seen[each], latest[each], limit + 1 - len(found))]
    whole = len(found) <= limit
    steps: list[FeedEvent] = []
    for each, one in _by_time(found[:limit]):
        numbers[each] = one.number
        steps.append(FeedEvent(each, one, Position(before.entries, dict(numbers))))
    if not whole:
        return steps, steps[-1].position
    reached = until
    if len(rows) == _ENTRIES:
        for row in rows:  # of those that the ledger knows as well, it says so
            if numbers.get(row.transfer_id) == row.event_number and row.transfer_id not in until.numbers:
                del numbers[row.transfer_id]
        reached = Position(rows[-1].number, numbers)
    if steps:
        steps[-1] = FeedEvent(steps[-1].transfer_id, steps[-1].event, reached)
    return steps, reached


def _read_seen(connection: sa.Connection, position: Position, wanted: Iterable[str]) -> dict[str, int]:
    """The number up to which a position has seen the events of each of these transfers."""
    known = {each: position.numbers.get(each, 0) for each in wanted}
    ids = sorted(known)
    for some in (ids[start : start + _IDS] for start in range(0, len(ids), _IDS)):
        query = (
            sa.select(ledger.c.transfer_id, sa.func.max(ledger.c.event_number))
            .where(ledger.c.transfer_id.in_(some), ledger.c.number <= position.entries)
            .group_by(ledger.c.transfer_id)
        )
        for each, number in connection.execute(query):
            known[each] = max(known[each], number)
    return known


def _read(connection: sa.Connection, transfer_id: str, after: int, until: int, limit: int) -> list[Event]:
    size = sa.func.length(event.c.data)
    columns = (event.c.number, event.c.at, event.c.kind, event.c.actor, event.c.hash, size.label("size"))
    query = (
        sa.select(*columns, sa.case((size <= MAX_DATA, event.c.data)).label("data"))
        .where(event.c.transfer_id == transfer_id, event.c.number > after, event.c.number <= until)
        .order_by(event.c.number)
        .limit(limit)
    )
    return [_event(row) for row in connection.execute(query)]


def _event(row: Any) -> Event:
    data = {"left_out": row.size} if row.data is None else json.loads(row.data)
    return Event(number=row.number, at=row.at, kind=row.kind, actor=row.actor, data=data, hash=row.hash)


def _by_time(found: list[tuple[str, Event]]) -> list[tuple[str, Event]]:
    """Sort events by time, but keep those of each transfer in their order, also if the clocks of workers differ."""
    latest: dict[str, float] = {}
    timed: list[tuple[float, tuple[str, Event]]] = []
    for each, one in found:
        latest[each] = max(latest.get(each, one.at), one.at)
        timed.append((latest[each], (each, one)))
    return [pair for _, pair in sorted(timed, key=lambda one: one[0])]


def _short(transfer_id: str) -> str:
    return base64.urlsafe_b64encode(uuid.UUID(transfer_id).bytes).decode().rstrip("=")


def _whole(short: str) -> str:
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(short + "==")))
