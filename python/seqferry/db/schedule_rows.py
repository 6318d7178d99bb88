"""Schedules, their runs and the record of what people did to them, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from seqferry.db import changes
from seqferry.db.record import events, signing
from seqferry.db.tables import schedule, schedule_event, schedule_run
from seqferry.model.labels import Description
from seqferry.model.models import Event
from seqferry.spec import stored

ACTIVE: Final = "active"
PAUSED: Final = "paused"

KEPT_RUNS: Final = 1000
"""Runs that are kept of each schedule; older ones are forgotten. Their transfers stay."""


def insert(connection: sa.Connection, **values: Any) -> None:
    connection.execute(schedule.insert().values(**values))


def update(connection: sa.Connection, schedule_id: str, **values: Any) -> None:
    connection.execute(schedule.update().where(schedule.c.id == schedule_id).values(**values))


def delete(connection: sa.Connection, schedule_id: str) -> None:
    """Remove a schedule and its runs. The record of events stays."""
    connection.execute(schedule_run.delete().where(schedule_run.c.schedule_id == schedule_id))
    connection.execute(schedule.delete().where(schedule.c.id == schedule_id))


def read_all(connection: sa.Connection) -> list[sa.Row[Any]]:
    """All schedules, by name."""
    return list(connection.execute(sa.select(schedule).order_by(schedule.c.name)))


def by_name(connection: sa.Connection, name: str, *, lock: bool = False) -> sa.Row[Any] | None:
    query = sa.select(schedule).where(schedule.c.name == name)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def by_id(connection: sa.Connection, schedule_id: str, *, lock: bool = False) -> sa.Row[Any] | None:
    query = sa.select(schedule).where(schedule.c.id == schedule_id)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


# --- runs -------------------------------------------------------------------------------------------------------------


def add_run(connection: sa.Connection, **values: Any) -> None:
    connection.execute(schedule_run.insert().values(**values))


def has_run(connection: sa.Connection, run_id: str) -> bool:
    return connection.execute(sa.select(schedule_run.c.id).where(schedule_run.c.id == run_id)).first() is not None


def runs(connection: sa.Connection, schedule_id: str, limit: int) -> list[sa.Row[Any]]:
    """The latest runs, newest first."""
    query = sa.select(schedule_run).where(schedule_run.c.schedule_id == schedule_id)
    newest = (schedule_run.c.at.desc(), schedule_run.c.due_at.desc(), schedule_run.c.id)
    return list(connection.execute(query.order_by(*newest).limit(limit)))


def prune_runs(connection: sa.Connection, schedule_id: str) -> list[str]:
    """Remove runs beyond those that are kept; returns their ids."""
    query = sa.select(schedule_run.c.id).where(schedule_run.c.schedule_id == schedule_id)
    old = list(
        connection.execute(query.order_by(schedule_run.c.at.desc()).offset(KEPT_RUNS).limit(KEPT_RUNS)).scalars()
    )
    if old:
        connection.execute(schedule_run.delete().where(schedule_run.c.id.in_(old)))
    return old


# --- the record -------------------------------------------------------------------------------------------------------


def record(
    connection: sa.Connection, schedule_id: str, name: str, at: float, kind: str, actor: str, data: dict[str, Any]
) -> None:
    """Add an event. The caller holds the lock of the schedule's row, or has just made it.

    Raises:
        ConfigError: the record in this database is kept with an audit key that this process has not.
    """
    owner = schedule_event.c.schedule_id
    named = {"name": name, **data}
    events.append_to_chain(connection, schedule_event, owner, schedule_id, at, kind, actor, named, name=name)
    changes.notify(connection)


def read_events(connection: sa.Connection, name: str) -> list[Event]:
    """Events of all schedules that had this name, removed ones among them, oldest first."""
    found = connection.execute(
        sa.select(schedule_event)
        .where(schedule_event.c.name == name)
        .order_by(schedule_event.c.at, schedule_event.c.schedule_id, schedule_event.c.number)
    )
    return [
        Event(
            number=row.number, at=row.at, kind=row.kind, actor=row.actor, data=events.read_data(row.data), hash=row.hash
        )
        for row in found
    ]


class ScheduleFault(NamedTuple):
    """Fault in the record of a schedule, or of a schedule against its record.

    Attributes:
        kind: that of a finding.
        number: of the event; 0: the schedule itself differs from its events.
        column: the value of the schedule that differs.
    """

    schedule_id: str
    name: str
    kind: Literal["schedule_changed", "schedule_added", "schedule_removed", "not_keyed"]
    number: int = 0
    column: str = ""


@dataclass(slots=True)
class _Chain:
    name: str
    number: int = 1
    previous: str = events.FIRST
    fault: ScheduleFault | None = None
    recorded: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values of the schedule according to its events."""
    is_removed: bool = False


_STATES: Final = {"added": ACTIVE, "paused": PAUSED, "resumed": ACTIVE}
_FIRING: Final = frozenset({*_STATES, "edited"})
"""Events that change when a schedule fires: each restarts its time, and raises its revision."""
_RECORDED_COLUMNS: Final = frozenset({"name", "cron", "timezone", "spec", "priority"})
"""Values that events hold under the names of their columns."""


def find_faults(connection: sa.Connection) -> list[ScheduleFault]:
    """The first fault of each schedule and its record, removed ones among them.

    Raises:
        ConfigError: an event was written with an audit key that this process has not.
    """
    ring = signing.key_ring(connection)
    chains: dict[str, _Chain] = {}
    query = sa.select(schedule_event).order_by(schedule_event.c.schedule_id, schedule_event.c.number)
    for row in connection.execute(query):
        chain = chains.setdefault(row.schedule_id, _Chain(row.name))
        if chain.fault is not None:
            continue
        key = signing.key_of(ring, row)
        own = events.event_hash(row.schedule_id, row.number, row.at, row.kind, row.actor, row.data, row.previous, key)
        if (row.number, row.previous, row.hash) != (chain.number, chain.previous, own) or not _follow(chain, row):
            chain.fault = ScheduleFault(row.schedule_id, chain.name, "schedule_changed", chain.number)
        elif key is None and ring.all():
            chain.fault = ScheduleFault(row.schedule_id, chain.name, "not_keyed", row.number)
        chain.number, chain.previous, chain.name = row.number + 1, row.hash, row.name
    found = [chain.fault for chain in chains.values() if chain.fault is not None]
    there = {row.id: row for row in read_all(connection)}
    return found + _unlike_their_records(there, chains)


def _follow(chain: _Chain, row: sa.Row[Any]) -> bool:
    """Apply an event to the values of the earlier events; False when its columns contradict its data."""
    data = events.read_data(row.data)
    recorded = {name: value for name, value in data.items() if name in _RECORDED_COLUMNS}
    if recorded.get("name", row.name) != row.name:
        return False  # the column is for searches, and no hash covers it
    chain.recorded |= recorded
    if row.kind == "added":
        labels = Description(None, data.get("labels", {})).stored_labels()
        chain.recorded |= {"created_by": row.actor, "created_at": row.at, "labels": labels}
    if row.kind in _STATES:
        chain.recorded["state"] = _STATES[row.kind]
    if row.kind in _FIRING:
        chain.recorded |= {"active_since": row.at, "revision": chain.recorded.get("revision", 0) + 1}
    chain.is_removed = chain.is_removed or row.kind == "removed"
    return True


def _unlike_their_records(there: dict[str, sa.Row[Any]], chains: dict[str, _Chain]) -> list[ScheduleFault]:
    """Schedules that differ from their events, that have no events, or that no event has removed."""
    found: list[ScheduleFault] = []
    for of, row in there.items():
        chain = chains.get(of)
        if chain is None or (chain.fault is None and chain.is_removed):
            found.append(ScheduleFault(of, row.name, "schedule_added"))
        elif chain.fault is None:
            values = {name: getattr(row, name) for name in chain.recorded}
            unlike = [name for name, value in values.items() if not _is_as_recorded(name, value, chain.recorded[name])]
            found += [ScheduleFault(of, row.name, "schedule_changed", column=unlike[0])] if unlike else []
    gone = (of for of, chain in chains.items() if of not in there and chain.fault is None and not chain.is_removed)
    return found + [ScheduleFault(of, chains[of].name, "schedule_removed") for of in gone]


def _is_as_recorded(name: str, value: Any, recorded: Any) -> bool:
    return value == recorded or (name == "spec" and stored.is_same(value, recorded))
