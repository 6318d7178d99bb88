"""Control of transfers that are on record: pause, resume, retry, adjust, cancel; of one transfer, or of many.

Each act is one transaction, which changes the row, records the event and moves the work in the queue. Workers see it
within a second. So a process that is killed has either done all of it or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import sqlalchemy as sa

from seqferry.db import actors, retry_chains, submissions, transfer_pages, transfers
from seqferry.db.paging import TransferFilter
from seqferry.model.errors import ConflictError, NotFoundError, SeqferryError, UnsupportedError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.labels import read_stored
from seqferry.model.models import (
    DONE_STATES,
    ENDED_TRANSFER_STATES,
    MAX_PRIORITY,
    RETRY_CAUSE,
    Adjustment,
    CheckedSpec,
    FailureGroup,
    Status,
    Submission,
    TransferSpec,
)
from seqferry.model.option_groups import MAX_REQUEST_RATE, Removal
from seqferry.service import authority, lazy
from seqferry.service.queries import check_count
from seqferry.service.service import Service
from seqferry.settings.config import MOST_REQUESTS
from seqferry.settings.sizes import Bandwidth
from seqferry.spec import identity, verification

Verb = Literal["pause", "resume", "retry", "cancel", "set"]

KEEP: Final = "keep"
"""A limit stays as it is."""

_GOING_ON: Final = ("queued", "planning", "running")
_CANDIDATES: Final[dict[Verb, tuple[str, ...]]] = {
    "pause": _GOING_ON,
    "resume": ("paused",),
    "cancel": (*_GOING_ON, "paused"),
    "set": (*_GOING_ON, "paused"),
    "retry": (*sorted(DONE_STATES), "failed", "cancelled"),
}
"""States of the transfers that a verb is for, when it is applied to many."""

_MAX_CAUSES: Final = 10
"""Causes that an error lists: more are not read."""


# --- one transfer -----------------------------------------------------------------------------------------------------


def pause(service: Service, transfer_id: str, *, actor: str) -> Status:
    """Have workers leave the transfer within a second. Open uploads stay, so that no part is copied twice.

    Pausing one that is paused changes nothing.

    Raises:
        NotFoundError: no transfer has this id.
        ConflictError: the transfer has ended, or is being cancelled.
    """
    with service.database.write() as connection:
        row = service.lock_row(connection, transfer_id)
        if row.state in ENDED_TRANSFER_STATES:
            raise ConflictError(f"Transfer {row.id} cannot be paused: it has already ended ({row.state}).")
        if transfers.is_stopping(row):
            raise ConflictError(f"Transfer {row.id} cannot be paused: it is being cancelled.")
        if not transfers.is_paused(row):
            transfers.pause(connection, row, time.time(), actor)
            service.park(connection, row)
    return service.status(row.id)


def resume(service: Service, transfer_id: str, *, actor: str) -> Status:
    """Let a paused transfer go on. One that is unfinished and not paused goes on by itself: nothing changes.

    Raises:
        NotFoundError: no transfer has this id.
        ConflictError: the transfer has ended.
        PolicyError: a client over HTTP requests or has requested it, and today's policy does not allow it.
    """
    known = service.status(transfer_id)
    if known.state == "paused":
        authority.check_start(service.settings, known.spec, created_by=known.created_by, actor=actor)
    with service.database.write() as connection:
        row = service.lock_row(connection, transfer_id)
        if row.state in ENDED_TRANSFER_STATES:
            raise ConflictError(
                f"Transfer {row.id} cannot be resumed: it has ended ({row.state}). To copy what has failed of it: "
                f"seqferry retry {row.id}"
            )
        if transfers.is_paused(row):
            transfers.unpause(connection, row, time.time(), actor)
            service.requeue(connection, row)
    return service.status(row.id)


def retry(
    service: Service, transfer_id: str, *, actor: str, cause: str | None = None, expected: int | None = None
) -> Submission:
    """Start a transfer of the objects that have failed of an ended one, or were given up with it.

    Of a transfer that was retried before, its latest retry counts: what has failed of that is retried, or goes on.

    Args:
        cause: only the objects of this cause: a ``FailureGroup.id``, or an error code that one cause has. All others
            are recorded with the retry as they have failed: its failures stay those of the whole delivery.
        expected: number of objects, of that cause or in all, that the caller expects.

    Raises:
        NotFoundError: no transfer has this id, or no object has failed for this cause.
        ConflictError: the transfer has not ended, no object of it has failed, other objects have failed by now, or
            with a cause: a retry is under way, or the transfer can only be retried as a whole.
        PolicyError: a client over HTTP asks, and today's policy does not allow what the transfer does.
        UnsupportedError: this version does not know what it asks for.
    """
    asked = service.status(transfer_id)
    latest = asked
    while latest.retried_by is not None:
        latest = service.status(latest.retried_by)
    if latest.unsupported is not None:
        raise UnsupportedError.of(latest.unsupported)
    if actors.is_http(actor):
        creator = service.find_first_actor(latest.id)
        authority.check_start(service.settings, latest.spec, created_by=creator, actor=actor)
    if not latest.ended:
        if cause is not None and latest is not asked:
            raise ConflictError(f"Transfer {latest.id} retries {asked.id} already; wait until it has ended.")
        if latest is asked:
            raise ConflictError(
                f"Transfer {asked.id} cannot be retried: it has not ended ({asked.state}). Go on with it: "
                f"seqferry resume {asked.id}"
            )
        return Submission(latest.id, goes_on=True)
    spec = _spec_of_retry(asked, latest)
    if cause is None:
        left = latest.totals.failed + (0 if latest.state in DONE_STATES else latest.totals.cancelled)
        check_count(left, expected, "object")
    else:
        spec = _of_cause(service, spec, latest, cause, expected)
    return service.submit_or_resume(
        spec, actor=actor, description=asked.description, also=_only_one_of(spec.retry_of, latest)
    )


def _only_one_of(retry_of: str | None, latest: Status) -> Callable[[sa.Connection, Submission], None]:
    """Refuses a retry beside another of the same transfer that was created after ``latest``, the last one found: both
    would go on with the same failures, and the chain follows one. A retry that failed as a whole is retried by another
    of the same transfer."""

    def check(connection: sa.Connection, made: Submission) -> None:
        if retry_of is None:
            return
        other = retry_chains.find_other_retry(connection, retry_of, made.id, latest.created_at)
        if other is not None:
            raise ConflictError(f"Transfer {other} retries {retry_of} already; wait until it has ended.")

    return check


def _of_cause(service: Service, spec: TransferSpec, latest: Status, cause: str, expected: int | None) -> TransferSpec:
    if spec.retry_of != latest.id or spec.kind.packs or spec.kind.copies_versions:
        raise ConflictError(
            f"Transfer {latest.id} can only be retried as a whole: some of its objects are not on record, or they "
            "belong together. Retry it without a cause."
        )
    found = _cause(service.failures(latest.id, keys=0), latest.id, cause)
    check_count(found.count, expected, "object")
    return replace(spec, options={**spec.options, RETRY_CAUSE: found.id})


def _cause(causes: list[FailureGroup], transfer_id: str, wanted: str) -> FailureGroup:
    """The only cause with this id or error code.

    Raises:
        NotFoundError: there is none.
        UsageError: failures of several operations have this code.
    """
    found = [one for one in causes if one.id == wanted] or [one for one in causes if one.error_code == wanted]
    if not found:
        there = ", ".join(f"{one.error_code} ({one.operation}: {one.id})" for one in causes[:_MAX_CAUSES])
        raise NotFoundError(
            f"No object of transfer {transfer_id} has failed for the cause '{wanted[:40]}'. Its causes: {there}"
        ).about("cause")
    if len(found) > 1:
        there = ", ".join(f"{one.id} ({one.operation})" for one in found[:_MAX_CAUSES])
        raise UsageError(f"'{wanted[:40]}' is the code of several causes; name one by its id: {there}").about("cause")
    return found[0]


def _spec_of_retry(asked: Status, latest: Status) -> TransferSpec:
    if latest.pruned_at is not None:
        raise ConflictError(
            f"Transfer {latest.id} cannot be retried: its objects were pruned and are in its receipt only. "
            "Run its cp or sync again."
        )

    totals = latest.totals
    left = totals.failed + (0 if latest.state in DONE_STATES else totals.cancelled)
    spec = identity.renew_keys(latest.spec)
    if RETRY_CAUSE in spec.options:
        spec = replace(spec, options={name: one for name, one in spec.options.items() if name != RETRY_CAUSE})
    if latest.state not in DONE_STATES and (not latest.planned or left == 0):
        if lazy.removals.EXPECTED in spec.options:
            raise ConflictError(
                f"Transfer {latest.id} cannot be retried: it ended before all of its objects were on record, and what "
                f"is left is not the number that was expected. Look again with --dry-run, and run {spec.kind.command} "
                "with the number that is there."
            )
        return spec  # not all of its objects are on record, or what has failed is no object
    if left == 0:
        also = "" if latest is asked else f" All of it has arrived with transfer {latest.id}."
        raise ConflictError(f"Nothing is left of transfer {asked.id} to retry: no object has failed.{also}")
    # To remove what the source has not, all of the source has to be known: that is for the whole transfer.
    return replace(spec, retry_of=latest.id, removal=Removal())


def verify(
    service: Service, transfer_id: str, *, actor: str, idempotency_key: str | None = None, **given: Any
) -> Submission:
    """Start a transfer that checks objects that another transfer brought. ``given`` is for ``verification_spec``.

    Raises:
        NotFoundError: no transfer has this id.
        ConflictError, UsageError, PolicyError, UnsupportedError: as ``prepare_verification``.
    """
    status = service.status(transfer_id)
    spec = prepare_verification(service, status, actor=actor, **given)
    return service.submit_or_resume(spec, actor=actor, idempotency_key=idempotency_key, description=status.description)


def prepare_verification(service: Service, status: Status, *, actor: str, **given: Any) -> CheckedSpec:
    """``verification_spec``, if this actor may start it.

    Raises:
        ConflictError, UsageError, UnsupportedError: as ``verification_spec``.
        PolicyError: a client over HTTP asks, and today's policy does not allow where the transfer has written, or how
            the client wants to reach that.
    """
    spec = verification_spec(status, **given)
    if actors.is_http(actor):
        if verification.names_place(given):
            authority.check_policy(service.settings, spec, addresses=True)
        creator = service.find_first_actor(status.id)
        authority.check_start(service.settings, spec, created_by=creator, actor=actor)
    return spec


def verification_spec(status: Status, **given: Any) -> CheckedSpec:
    """The spec of the transfer that ``verify`` starts. ``given`` is for ``verification.build_verification_spec``.

    Raises:
        ConflictError, UsageError: as that function.
        UnsupportedError: this version does not know all of the transfer.
    """
    if status.unsupported is not None:
        raise UnsupportedError.of(status.unsupported)
    return verification.build_verification_spec(status, **given)


def adjust(
    service: Service,
    transfer_id: str,
    *,
    actor: str,
    priority: int | None = None,
    max_requests: int | str | None = KEEP,
    max_bandwidth: str | None = KEEP,
    tpslimit: int | str | None = KEEP,
) -> Status:
    """Change the priority or the limits of a transfer that has not ended. See ``models.Adjustment``.

    Args:
        priority: None keeps it.
        max_requests, max_bandwidth, tpslimit: None gives the limit up, so that those of the workers hold.

    Raises:
        NotFoundError: no transfer has this id.
        ConflictError: the transfer has ended.
        UsageError: a value is out of its range or has the wrong form.
    """
    with service.database.write() as connection:
        row = service.lock_row(connection, transfer_id)
        _adjust(
            service,
            connection,
            row,
            actor,
            priority=priority,
            max_requests=max_requests,
            max_bandwidth=max_bandwidth,
            tpslimit=tpslimit,
        )
    return service.status(row.id)


def _adjust(
    service: Service,
    connection: sa.Connection,
    row: sa.Row[Any],
    actor: str,
    *,
    priority: int | None = None,
    max_requests: int | str | None = KEEP,
    max_bandwidth: str | None = KEEP,
    tpslimit: int | str | None = KEEP,
) -> None:
    if row.state in ENDED_TRANSFER_STATES:
        raise ConflictError(f"Transfer {row.id} cannot be changed: it has already ended ({row.state}).")
    before = transfers.adjustment_of(row)
    after = Adjustment(
        priority=before.priority if priority is None else priority,
        max_requests=before.max_requests if isinstance(max_requests, str) else max_requests,
        max_bandwidth=before.max_bandwidth if max_bandwidth == KEEP else max_bandwidth,
        tpslimit=before.tpslimit if isinstance(tpslimit, str) else tpslimit,
    )
    check_adjustment(after)
    if after != before:
        transfers.adjust(connection, row, after, time.time(), actor)
        service.queue.prioritize(connection, row.id, before.priority, after.priority)


def set_description(
    service: Service,
    transfer_id: str,
    *,
    actor: str,
    name: str | None = None,
    labels: Mapping[str, str | None] | None = None,
) -> Status:
    """Change the name or the labels of a transfer, ended or not; the record says who did it.

    Args:
        name: '' takes the name away, None keeps it.
        labels: added, or in place of those of the same keys; a value of None takes a label away.

    Raises:
        NotFoundError: no transfer has this id.
        UsageError: the name or a label is not valid.
    """
    with service.database.write() as connection:
        row = service.lock_row(connection, transfer_id)
        _describe(connection, row, actor, name, labels)
    return service.status(row.id)


def _describe(
    connection: sa.Connection, row: sa.Row[Any], actor: str, name: str | None, labels: Mapping[str, str | None] | None
) -> None:
    after = read_stored(row.name, row.labels).with_changes(name=name, labels=labels or {})
    submissions.describe(connection, row, after, time.time(), actor)


def change(
    service: Service,
    transfer_id: str,
    *,
    actor: str,
    name: str | None = None,
    labels: Mapping[str, str | None] | None = None,
    **limits: Any,
) -> Status:
    """``adjust`` with ``limits``, and ``set_description``: both, or nothing where one of them is refused.

    Raises:
        NotFoundError, ConflictError, UsageError: as these two.
    """
    described = name is not None or labels is not None
    with service.database.write() as connection:
        row = service.lock_row(connection, transfer_id)
        if limits or not described:
            _adjust(service, connection, row, actor, **limits)
        if described:
            _describe(connection, row, actor, name, labels)
    return service.status(row.id)


def check_adjustment(adjustment: Adjustment) -> None:
    """Raise UsageError when an adjustment makes no sense."""
    if not -MAX_PRIORITY <= adjustment.priority <= MAX_PRIORITY:
        raise UsageError(
            f"--priority {adjustment.priority}: a priority is from -{MAX_PRIORITY} to {MAX_PRIORITY}."
        ).about("priority")
    most = adjustment.max_requests
    if most is not None and not 1 <= most <= MOST_REQUESTS:
        raise UsageError(f"--max-requests {most}: from 1 to {MOST_REQUESTS} requests can be in flight.").about(
            "max_requests"
        )
    starts = adjustment.tpslimit
    if starts is not None and not 1 <= starts <= MAX_REQUEST_RATE:
        raise UsageError(f"--tpslimit {starts}: from 1 to {MAX_REQUEST_RATE} requests can start per second.").about(
            "tpslimit"
        )
    if adjustment.max_bandwidth is not None:
        try:
            Bandwidth.parse(adjustment.max_bandwidth)
        except ValueError as why:
            raise UsageError(f"--max-bandwidth: {why}.").about("max_bandwidth") from None


# --- many -------------------------------------------------------------------------------------------------------------


@frozen
class ControlResult:
    """Result of a verb on one transfer: its status afterwards, or the error that prevented it.

    Attributes:
        started: of a retry, the transfer that retries it.
    """

    id: str
    status: Status | None = None
    error: SeqferryError | None = None
    started: str | None = None


def select_transfers(service: Service, verb: Verb, which: TransferFilter) -> list[str]:
    """Ids of the transfers that the filter selects and the verb applies to, oldest first.

    Raises:
        UsageError: there is no such state, or a condition is empty.
    """
    which.check_selection()
    states = tuple(state for state in _CANDIDATES[verb] if not which.states or state in which.states)
    conditions = transfer_pages.conditions(replace(which, states=()), is_sqlite=service.database.is_sqlite)
    with service.database.read() as connection:
        return transfers.find_in_states(connection, states, conditions, with_failures=verb == "retry")


def read_results(service: Service, ids: list[str]) -> list[ControlResult]:
    """The present statuses of the transfers, as results."""
    results: list[ControlResult] = []
    for one in ids:
        try:
            results.append(_result_of(service.status(one)))
        except SeqferryError as why:
            results.append(ControlResult(one, error=why))
    return results


def apply_to_each(service: Service, verb: Verb, ids: list[str], *, actor: str, **change: Any) -> list[ControlResult]:
    """Apply a verb to each transfer; an error of one does not stop the others."""
    acts: dict[Verb, Callable[[str], ControlResult]] = {
        "pause": lambda one: _result_of(pause(service, one, actor=actor)),
        "resume": lambda one: _result_of(resume(service, one, actor=actor)),
        "cancel": lambda one: _result_of(service.cancel(one, actor=actor, **change)),
        "set": lambda one: _result_of(adjust(service, one, actor=actor, **change)),
        "retry": lambda one: _retry_one(service, one, actor, **change),
    }
    results: list[ControlResult] = []
    for one in ids:
        try:
            results.append(acts[verb](one))
        except SeqferryError as why:
            results.append(ControlResult(one, error=why))
    return results


def _result_of(status: Status) -> ControlResult:
    return ControlResult(status.id, status)


def _retry_one(service: Service, transfer_id: str, actor: str, cause: str | None = None) -> ControlResult:
    submission = retry(service, transfer_id, actor=actor, cause=cause)
    return ControlResult(service.status(transfer_id).id, service.status(submission.id), started=submission.id)
