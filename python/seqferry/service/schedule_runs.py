"""Runs of schedules: what each submits, and what is on record of it.

What must stay true: a run is written in the transaction of its transfer, with the digest of the list that it has read.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

import sqlalchemy as sa

from seqferry.db import schedule_rows
from seqferry.db.record import events
from seqferry.engine import crash_points
from seqferry.model.errors import ConflictError, PolicyError, SeqferryError, UnsupportedError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.labels import read_stored as stored_labels
from seqferry.model.models import Submission, TransferSpec
from seqferry.service import authority
from seqferry.service.service import Service
from seqferry.spec import identity, list_files, stored
from seqferry.spec.list_files import ListRead

RunOutcome = Literal["submitted", "waiting", "joined", "superseded", "skipped", "failed"]


@frozen
class ScheduleRun:
    """One run of a schedule, and its outcome.

    Attributes:
        due_at: when it was to begin.
        at: when it did.
        outcome: ``submitted`` a transfer; one that is ``waiting`` for another that writes to the same keys; ``joined``
            the unfinished one of an earlier run; ``superseded`` by a later run; ``skipped`` since the schedule was
            paused or edited; ``failed`` to submit.
        message: why, as text.
        list_sha256: of the list that the run has read, in hexadecimal; None: it names none. On record with its
            transfer.
    """

    id: str
    due_at: float
    at: float
    outcome: RunOutcome
    transfer_id: str | None
    message: str | None
    list_sha256: str | None = None


def check_authority(service: Service, row: sa.Row[Any], actor: str) -> None:
    """Check that a schedule may start work on behalf of the actor who added it and of the present one.

    Raises:
        PolicyError: its token is gone, or today's policy does not allow its transfer.
    """
    authority.check_token(service, row.created_by, f"The schedule '{row.name}'")
    spec = stored.read(row.spec)
    authority.check_start(service.settings, spec, created_by=row.created_by, actor=actor)


def submit(service: Service, row: sa.Row[Any], run: ScheduleRun) -> ScheduleRun:
    """Submit the transfer of a run, and record both, or why it could not be submitted."""
    done = run
    listed: ListRead | None = None

    def also(connection: sa.Connection, submission: Submission) -> None:
        nonlocal done
        if submission.goes_on:
            why = f"Transfer {submission.id} is unfinished; it goes on instead of another one."
            done = replace(run, outcome="joined", transfer_id=submission.id, message=why)
        elif submission.blocked:
            why = "An unfinished transfer writes to the same keys; this one waits for its end."
            done = replace(run, outcome="waiting", transfer_id=submission.id, message=why)
        else:
            done = replace(run, transfer_id=submission.id)
        if listed is not None:
            done = replace(done, list_sha256=listed.sha256)
            _record_list(connection, submission.id, run, actor, listed)
        add_run(connection, row, done)
        crash_points.reach("before-schedule-run-recorded")

    actor = f"{row.created_by} by schedule {row.name}"
    try:
        check_authority(service, row, row.created_by)
        spec, listed = list_files.read_listed(_spec_now(row.spec), service.settings)
        service.submit_or_resume(
            spec,
            actor=actor,
            idempotency_key=run.id,
            priority=row.priority,
            description=stored_labels(row.name, row.labels),
            also=also,
        )
    except (UsageError, ConflictError, UnsupportedError, PolicyError) as why:
        return _record_failure(service, row, run, why)
    crash_points.reach("after-schedule-run-recorded")
    return done


def _record_list(connection: sa.Connection, transfer_id: str, run: ScheduleRun, actor: str, listed: ListRead) -> None:
    """Put the list of a run on the record of its transfer, unless the last one there is the same."""
    before = events.last(connection, transfer_id, events.LIST_READ)
    if before is None or before.get("sha256") != listed.sha256:
        events.append(connection, transfer_id, run.at, events.LIST_READ, actor, {**listed.facts(), "run": run.id})


def _record_failure(service: Service, row: sa.Row[Any], run: ScheduleRun, why: SeqferryError) -> ScheduleRun:
    failed = replace(run, outcome="failed", message=why.message)
    with service.database.write() as connection:
        if not schedule_rows.has_run(connection, run.id):
            add_run(connection, row, failed)
    return failed


def _spec_now(text: str) -> TransferSpec:
    """The spec of a run that begins now: ages count from now, and temporary keys are those of today.

    Raises:
        UnsupportedError: this version does not know what it asks for.
    """
    spec = identity.renew_keys(stored.read(text))
    return replace(spec, as_of=None if spec.as_of is None else time.time())


def add_run(connection: sa.Connection, row: sa.Row[Any], run: ScheduleRun) -> None:
    """Record a run."""
    schedule_rows.add_run(
        connection,
        id=run.id,
        schedule_id=row.id,
        due_at=run.due_at,
        at=run.at,
        outcome=run.outcome,
        transfer_id=run.transfer_id,
        message=run.message,
    )


def list_digests(connection: sa.Connection, runs: list[sa.Row[Any]]) -> dict[str, str]:
    """Digests of the lists that runs have read, by the ids of the runs."""
    by_transfer = {run.transfer_id: list[events.RecordedEvent]() for run in runs if run.transfer_id is not None}
    for one in events.read_kind(connection, by_transfer, events.LIST_READ):
        by_transfer[one.transfer_id].append(one)
    found: dict[str, str] = {}
    for run in runs:
        # A transfer that several runs have joined has an event for each other list; planning reads manifests later.
        for one in by_transfer.get(run.transfer_id, ()):
            if one.at <= run.at or run.id not in found:
                found[run.id] = str(one.data.get("sha256"))
    return found
