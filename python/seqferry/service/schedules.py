"""Schedules: transfers of any operation, submitted again and again at the times of a cron expression.

The table ``schedule`` says what there is. Workers make DBOS follow it (``workflows.schedule_ticks``); a tick is a
workflow of a queue of its own, which calls ``run_due``. The id of a tick is the idempotency key of its transfer, and
the run is written with the transfer: so a process that is killed anywhere leaves one transfer for each tick.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import sqlalchemy as sa

from seqferry.db import actors, schedule_rows
from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.model.errors import ConflictError, NotFoundError, PolicyError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.labels import describe
from seqferry.model.labels import read_stored as stored_labels
from seqferry.model.locations import S3Location
from seqferry.model.models import Event, TransferSpec
from seqferry.service import authority, cron
from seqferry.service.cron import UTC_ZONE, Cron
from seqferry.service.schedule_runs import RunOutcome, ScheduleRun, add_run, check_authority, list_digests, submit
from seqferry.service.service import Service
from seqferry.spec import list_files, stored

State = Literal["active", "paused"]

NAME: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
"""Pattern of the names of schedules: fit for a path of the API, and without a space for the record of actors."""

MAX_SCHEDULES: Final = 1000
"""Each is a thread in each worker."""

LATE_SECONDS: Final = 30.0
"""A run that is less late runs though the next is due, so that a busy worker does not pass over all of a tight one."""

SHOWN_RUNS: Final = 20

_SERVER: Final = "server"
"""Actor of what is done to a schedule that its client may not have by now."""

_LONGER: Final = "Give it times that are further apart; the operator can allow others ([server] schedule_interval)."


@frozen
class Schedule:
    """A schedule as it is now.

    Attributes:
        next_at: when it fires next; None while it is paused.
        runs: the latest, newest first.
    """

    id: str
    name: str
    cron: Cron
    spec: TransferSpec
    priority: int
    state: State
    created_at: float
    created_by: str
    next_at: float | None
    runs: tuple[ScheduleRun, ...]
    labels: Mapping[str, str]
    """Of its transfers, which have its name as well."""


# --- what people do ---------------------------------------------------------------------------------------------------


def add(
    service: Service,
    expression: str,
    spec: TransferSpec,
    *,
    actor: str,
    name: str | None = None,
    timezone: str = UTC_ZONE,
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
) -> Schedule:
    """Add a schedule. The environment of this process resolves places and identities of its transfers now.

    Its transfers have its name, and these labels.

    Raises:
        UsageError: the expression, the zone, the name, a label or the spec is not valid.
        ConflictError: the name is taken, or there are as many schedules as can be.
        PolicyError: a client asks for more schedules, or shorter intervals, than the policy allows.
    """
    now = time.time()
    fires = cron.parse(expression, timezone, now)
    _check_interval(service, fires.expression, actor)
    list_files.check_shared(spec, service.settings)
    spec = service.resolve_submission(spec, priority=priority)
    description = describe(None, labels or {})
    description.check()
    schedule_id = str(uuid.uuid4())
    name = f"{spec.operation}-{schedule_id[:8]}" if name is None else name
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"'{name[:100]}' cannot be the name of a schedule. Use up to 63 letters, digits, dots, hyphens and "
            "underscores, and begin with a letter or a digit."
        ).about("name")
    with service.database.write() as connection:
        acquire(connection, AdvisoryLock.SCHEDULES)
        rows = schedule_rows.read_all(connection)
        names = [row.name for row in rows]
        if name in names:
            raise ConflictError(
                f"There is a schedule '{name}' already. Give another --name, or remove that one: "
                f"seqferry schedule rm {name}"
            ).about("name")
        if len(names) >= MAX_SCHEDULES:
            raise ConflictError(f"There are {MAX_SCHEDULES} schedules, and no more can be. Remove one first.")
        if actors.is_http(actor):
            client = actors.client_of(actor)
            service.settings.policy.check_schedules(sum(actors.client_of(row.created_by) == client for row in rows))
        text = stored.write(spec)
        schedule_rows.insert(
            connection,
            id=schedule_id,
            name=name,
            cron=fires.expression,
            timezone=fires.timezone,
            spec=text,
            priority=priority,
            state=schedule_rows.ACTIVE,
            active_since=now,
            revision=1,
            created_at=now,
            created_by=actor,
            labels=description.stored_labels(),
        )
        data: dict[str, Any] = {
            "cron": fires.expression, "timezone": fires.timezone, "spec": text, "priority": priority,
        }  # fmt: skip
        if description:
            data["labels"] = dict(description.labels)
        schedule_rows.record(connection, schedule_id, name, now, "added", actor, data)
    return find_schedule(service, name)


def edit(
    service: Service, name: str, *, actor: str, expression: str | None = None, timezone: str | None = None
) -> Schedule:
    """Change when a schedule fires. Times before the change are not caught up.

    Raises:
        NotFoundError: no schedule has this name.
        UsageError: the expression or the zone is not valid.
        PolicyError: a client asks for a shorter interval than the policy allows, or has the schedule.
    """
    now = time.time()
    with service.database.write() as connection:
        row = _row(connection, name, lock=True)
        fires = cron.parse(
            row.cron if expression is None else expression, row.timezone if timezone is None else timezone, now
        )
        _check_interval(service, fires.expression, actor, row.created_by)
        if (fires.expression, fires.timezone) != (row.cron, row.timezone):
            changed = {"cron": fires.expression, "timezone": fires.timezone}
            schedule_rows.update(connection, row.id, **changed, active_since=now, revision=row.revision + 1)
            data = {**changed, "before": {"cron": row.cron, "timezone": row.timezone}}
            schedule_rows.record(connection, row.id, name, now, "edited", actor, data)
    return find_schedule(service, name)


def pause(service: Service, name: str, *, actor: str) -> Schedule:
    """Have a schedule not fire until it is resumed. Its transfers go on.

    Raises:
        NotFoundError: no schedule has this name.
    """
    return _set_state(service, name, schedule_rows.PAUSED, "paused", actor)


def resume(service: Service, name: str, *, actor: str) -> Schedule:
    """Have a paused schedule fire again. Times at which it was paused are not caught up.

    Raises:
        NotFoundError: no schedule has this name.
        PolicyError: its token is gone, or today's policy does not allow its transfer or its interval.
    """
    with service.database.read() as connection:
        row = _row(connection, name)
    check_authority(service, row, actor)
    _check_interval(service, row.cron, row.created_by)
    return _set_state(service, name, schedule_rows.ACTIVE, "resumed", actor)


def _check_interval(service: Service, expression: str, *of: str) -> None:
    """Check that a schedule of these actors may fire as often as it does.

    Raises:
        PolicyError: one is a client over HTTP, and the policy does not allow the interval.
    """
    if any(map(actors.is_http, of)) and (fault := _interval_fault(service, expression)) is not None:
        raise PolicyError(f"A schedule of '{expression}' is not allowed here: {fault}. {_LONGER}").about("cron")


def _interval_fault(service: Service, expression: str) -> str | None:
    return service.settings.policy.interval_fault(cron.shortest_interval(expression))


def _set_state(service: Service, name: str, state: str, kind: str, actor: str) -> Schedule:
    now = time.time()
    with service.database.write() as connection:
        row = _row(connection, name, lock=True)
        if row.state != state:
            schedule_rows.update(connection, row.id, state=state, active_since=now, revision=row.revision + 1)
            schedule_rows.record(connection, row.id, name, now, kind, actor, {})
    return find_schedule(service, name)


def remove(service: Service, name: str, *, actor: str) -> None:
    """Remove a schedule. Its transfers, and the record of what was done to it, stay.

    Raises:
        NotFoundError: no schedule has this name.
    """
    with service.database.write() as connection:
        row = _row(connection, name, lock=True)
        schedule_rows.record(connection, row.id, name, time.time(), "removed", actor, {})
        schedule_rows.delete(connection, row.id)


def run_now(service: Service, name: str, *, actor: str) -> ScheduleRun:
    """Submit the transfer of a schedule now, paused or not.

    Raises:
        NotFoundError: no schedule has this name.
        UnsupportedError: this version does not know what it asks for.
        PolicyError: its token is gone, or today's policy does not allow its transfer.
    """
    now = time.time()
    with service.database.read() as connection:
        row = _row(connection, name)
    check_authority(service, row, actor)
    run_id = f"sched-{row.id}-now-{uuid.uuid4()}"
    run = ScheduleRun(run_id, now, now, "submitted", None, f"requested by {actor}")
    done = submit(service, row, run)
    with service.database.write() as connection:
        if (still := schedule_rows.by_id(connection, row.id, lock=True)) is not None:
            data = {"transfer": done.transfer_id, "outcome": done.outcome}
            schedule_rows.record(connection, still.id, name, now, "run", actor, data)
    return done


# --- what there is ----------------------------------------------------------------------------------------------------


def list_schedules(service: Service) -> list[Schedule]:
    """All schedules by name, each with its last run."""
    with service.database.read() as connection:
        found = [(row, schedule_rows.runs(connection, row.id, 1)) for row in schedule_rows.read_all(connection)]
        digests = list_digests(connection, [run for _, runs in found for run in runs])
    return [_schedule(row, runs, digests) for row, runs in found]


def find_schedule(service: Service, name: str) -> Schedule:
    """One schedule with its latest runs.

    Raises:
        NotFoundError: no schedule has this name.
    """
    with service.database.read() as connection:
        row = _row(connection, name)
        runs = schedule_rows.runs(connection, row.id, SHOWN_RUNS)
        return _schedule(row, runs, list_digests(connection, runs))


def history(service: Service, name: str) -> list[Event]:
    """Events of all schedules of this name, each with its actor; removed schedules are included.

    Raises:
        NotFoundError: no schedule ever had this name.
    """
    with service.database.read() as connection:
        recorded = schedule_rows.read_events(connection, name)
    if not recorded:
        raise _unknown_error(name)
    return recorded


def _schedule(row: sa.Row[Any], runs: list[sa.Row[Any]], digests: Mapping[str, str]) -> Schedule:
    fires = Cron(row.cron, row.timezone)
    return Schedule(
        id=row.id,
        name=row.name,
        cron=fires,
        spec=stored.read_legible(row.spec)[0],
        priority=row.priority,
        state=cast("State", row.state),
        created_at=row.created_at,
        created_by=row.created_by,
        next_at=fires.next_time(time.time()) if row.state == schedule_rows.ACTIVE else None,
        labels=stored_labels(row.name, row.labels).labels,
        runs=tuple(
            ScheduleRun(
                one.id,
                one.due_at,
                one.at,
                cast("RunOutcome", one.outcome),
                one.transfer_id,
                one.message,
                digests.get(one.id),
            )
            for one in runs
        ),
    )


# --- what workers do --------------------------------------------------------------------------------------------------


def run_due(service: Service, schedule_id: str, run_id: str, due_at: float, revision: int) -> ScheduleRun | None:
    """Run a tick once: submit the transfer, or record why not. None: there is no such schedule any more.

    Repeating it after a kill at any point adds nothing.
    """
    now = time.time()
    pause_disallowed(service, schedule_id)
    with service.database.write() as connection:
        row = schedule_rows.by_id(connection, schedule_id, lock=True)
        if row is None or schedule_rows.has_run(connection, run_id):
            return None
        reason = _reason_to_leave(row, due_at, now, revision)
        if reason is not None:
            outcome, message = reason
            run = ScheduleRun(run_id, due_at, now, outcome, None, message)
            add_run(connection, row, run)
            return run
    return submit(service, row, ScheduleRun(run_id, due_at, now, "submitted", None, None))


def pause_disallowed(service: Service, schedule_id: str | None = None) -> dict[str, str]:
    """Pause active schedules of clients that may not have them by now; returns why, by their names.

    Their token was removed, has expired or may only read; or they fire more often than the policy allows. With
    ``schedule_id`` only that one is checked.

    The record of the schedule and its runs say why. Repeating it adds nothing.
    """
    with service.database.read() as connection:
        rows = [
            row
            for row in schedule_rows.read_all(connection)
            if row.state == schedule_rows.ACTIVE and schedule_id in (None, row.id)
        ]
    creators = {authority.token_name(row.created_by): row.created_by for row in rows}
    faults = {name: authority.token_fault(service, actor) for name, actor in creators.items()}
    paused: dict[str, str] = {}
    for row in rows:
        fault, step = (
            faults[authority.token_name(row.created_by)],
            "Add it anew with a token of today, or as a command.",
        )
        if fault is None and actors.is_http(row.created_by):
            fault, step = _interval_fault(service, row.cron), f"{_LONGER} Then resume it."
        if fault is not None and _pause_for(service, row.id, fault, step):
            paused[row.name] = fault
    return paused


def _pause_for(service: Service, schedule_id: str, fault: str, step: str) -> bool:
    now = time.time()
    message = f"The schedule was paused: {fault}. {step}"
    with service.database.write() as connection:
        row = schedule_rows.by_id(connection, schedule_id, lock=True)
        if row is None or row.state != schedule_rows.ACTIVE:
            return False
        changed = {"state": schedule_rows.PAUSED, "active_since": now, "revision": row.revision + 1}
        schedule_rows.update(connection, row.id, **changed)
        schedule_rows.record(connection, row.id, row.name, now, "paused", _SERVER, {"why": fault})
        add_run(
            connection, row, ScheduleRun(f"sched-{row.id}-paused-{uuid.uuid4()}", now, now, "skipped", None, message)
        )
    return True


def _reason_to_leave(row: sa.Row[Any], due_at: float, now: float, revision: int) -> tuple[RunOutcome, str] | None:
    fires = Cron(row.cron, row.timezone)
    if row.state != schedule_rows.ACTIVE:
        return "skipped", "The schedule is paused."
    if revision != row.revision and (due_at < row.active_since or not fires.fires_at(due_at)):
        return "skipped", "The schedule was changed meanwhile."
    if now - due_at > LATE_SECONDS and fires.next_time(due_at) <= now:
        return "superseded", "A later run was due already when this one could begin."
    return None


def uses_temporary_keys(spec: TransferSpec) -> bool:
    """True when a schedule uses temporary credentials."""
    places = (place.access for place in (spec.source, spec.target) if isinstance(place, S3Location))
    return any(place is not None and place.identity.source == "session" for place in places)


def _row(connection: sa.Connection, name: str, *, lock: bool = False) -> sa.Row[Any]:
    row = schedule_rows.by_name(connection, name, lock=lock)
    if row is None:
        raise _unknown_error(name)
    return row


def _unknown_error(name: str) -> NotFoundError:
    return NotFoundError(f"There is no schedule '{name[:100]}'. See all with: seqferry schedule list")
