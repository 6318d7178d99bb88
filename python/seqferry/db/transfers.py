"""Transfers as a whole: their rows, their states, what a status shows.

States and what changes them (each change in one transaction with its event)::

    queued ──plan begins──> planning ──listed──> running ──all batches ended──> done | failed
      │                        │                    │
      │ cancel                 └──────cancel────────┴──> cancelling ──all batches ended──> cancelled
      └────────────────────────────────────────────────────────────────────────────────────> cancelled

A job-wide error is written to ``error_code`` and ``error_message`` at once, while the state stays: batches see it and
stop, and the state turns to ``failed`` when the last one has. So after an ended state no worker begins a request that
changes the storage: runs that were shut out have lost the lease to write (``workflows.lease``). Requests that were
under way may still end; ``docs/guarantees/durability.md`` says which, and for how long. Objects that were not attempted
to their end are ``cancelled`` then. A cancel that comes first wins.

A transfer that has not ended may be ``paused``: workers leave it within a second, with its uploads open. What it was
follows from the times in its row (``resumed_state``). Its work is parked on the queue in a lane that no worker takes
from, in the transaction that changes the state; a worker that comes upon it elsewhere parks it there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import delivery_mail_rows
from seqferry.db.advisory import AdvisoryLock, take
from seqferry.db.record import events, receipts, sealed_row
from seqferry.db.tables import batch, event, sample, submission_key, tally, transfer, worker_live
from seqferry.model import labels, operations
from seqferry.model.labels import Description
from seqferry.model.models import (
    ENDED_TRANSFER_STATES,
    OPERATION_VERIFY,
    WITH_FAILURES,
    Adjustment,
    ResolvedSpec,
    TransferSpec,
    TransferState,
)
from seqferry.spec import identity, keyspace, stored, verification

MOST_RETRIES: Final = 1000
"""Transfers of a chain of retries that are followed: a chain that a script makes for years ends somewhere."""

UNFINISHED: Final = transfer.c.ended_at.is_(None)
"""Condition for unfinished transfers, written as their indexes have it. An ended transfer has the time of its end."""

_TOTALS: Final = receipts.TOTALS

_NOTHING: Final[dict[str, int]] = dict.fromkeys(_TOTALS, 0)

_UNADJUSTED: Final = Adjustment()

_LAST_CHARACTER: Final = "\U0010ffff"


def lock_submissions(connection: sa.Connection) -> None:
    """Let no other process submit until the transaction ends, so that what it looks up stays true."""
    take(connection, AdvisoryLock.SUBMISSION)


def insert(
    connection: sa.Connection,
    spec: ResolvedSpec,
    *,
    transfer_id: str,
    at: float,
    actor: str,
    idempotency_key: str | None,
    adjustment: Adjustment = _UNADJUSTED,
    description: Description = labels.NOTHING,
) -> str | None:
    """Add a transfer, after those that are unfinished. The caller holds the lock of submissions.

    Returns:
        The unfinished transfer that it waits for, since both write to the same keys.
    """
    text, needs = stored.write(spec), identity.needs(spec)
    turn = (connection.execute(sa.select(sa.func.max(transfer.c.turn)).where(UNFINISHED)).scalar() or 0) + 1
    blocked_by = _blocker(connection, spec, turn)
    values = {
        "id": transfer_id,
        "state": "queued",
        "spec": text,
        "created_at": at,
        "created_by": actor,
        "idempotency_key": None if idempotency_key is None else _key_of(actor, idempotency_key),
        "needs": needs,
        "lane": identity.lane(needs),
        "turn": turn,
        "blocked_by": blocked_by,
        "submission": identity.submission(spec),
        "target_place": keyspace.place(spec),
        "target_prefix": keyspace.prefix(spec),
        "source_uri": spec.source.uri,
        "target_uri": spec.target.uri,
        "retry_of": spec.retry_of,
        **asdict(adjustment),
        "name": description.name,
        "labels": description.stored_labels(),
    }
    connection.execute(transfer.insert().values(values))
    connection.execute(tally.insert().values(transfer_id=transfer_id))
    sealed = {name: values[name] for name in sealed_row.COLUMNS}
    data: dict[str, Any] = {"spec": json.loads(text), sealed_row.SEALED: sealed}
    if blocked_by is not None:
        data["waits_for"] = blocked_by
    if description:
        data |= _told(description)
    events.append(connection, transfer_id, at, "submitted", actor, data)
    return blocked_by


def describe(connection: sa.Connection, row: sa.Row[Any], description: Description, at: float, actor: str) -> None:
    """Give a transfer, whose row is locked, this name and these labels. An event tells of a change."""
    if description == labels.stored(row.name, row.labels):
        return
    values = {"name": description.name, "labels": description.stored_labels()}
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(values))
    events.append(connection, row.id, at, "described", actor, _told(description))


def _told(description: Description) -> dict[str, Any]:
    return {"name": description.name, "labels": dict(description.labels)}


def ids_named(connection: sa.Connection, name: str, limit: int) -> list[str]:
    """Ids of the newest transfers of this name."""
    query = sa.select(transfer.c.id).where(transfer.c.name == name).order_by(transfer.c.created_at.desc())
    return list(connection.execute(query.limit(limit)).scalars())


def same(connection: sa.Connection, spec: ResolvedSpec, actor: str) -> sa.Row[Any] | None:
    """The unfinished transfer of the same submission that is not being given up; the latest, should there be more.

    Over HTTP, only one that was submitted with the same token. One with another temporary key of the account is only
    the same when it is the same actor's.
    """
    rows = connection.execute(
        sa.select(transfer)
        .where(transfer.c.submission == identity.submission(spec), UNFINISHED)
        .order_by(transfer.c.turn.desc())
    )
    return next((row for row in rows if not is_stopping(row) and _goes_on(row, spec, actor)), None)


def _goes_on(row: sa.Row[Any], spec: TransferSpec, actor: str) -> bool:
    if _client(row.created_by) == _client(actor):
        return True
    written, unsupported = stored.shown(row.spec)
    return not is_http(actor) and unsupported is None and identity.proofs(written) == identity.proofs(spec)


def _client(actor: str) -> str:
    """An actor; over HTTP the name of its token, wherever it is."""
    return actor.rpartition(" from ")[0] if is_http(actor) and " from " in actor else actor


def first_asked_by(connection: sa.Connection, transfer_id: str) -> str:
    """The actor of a transfer, or of the first one that it retries or verifies; empty for none that is on record."""
    found, wanted, seen = "", transfer_id, set[str]()
    while wanted and wanted not in seen:
        seen.add(wanted)
        query = sa.select(transfer.c.created_by, transfer.c.retry_of, transfer.c.spec).where(transfer.c.id == wanted)
        row = connection.execute(query).one_or_none()
        if row is None:
            break
        found, wanted = row.created_by, row.retry_of or _verified_by(row.spec)
    return found


def chain_root(connection: sa.Connection, transfer_id: str) -> str:
    """The first transfer of the chain of retries that this one is in; itself when it retries none that is on record."""
    found, seen = transfer_id, {transfer_id}
    while True:
        query = sa.select(transfer.c.retry_of).where(transfer.c.id == found)
        before = connection.execute(query).scalar_one_or_none()
        if before is None or before in seen or row_of(connection, before) is None:
            return found
        found = before
        seen.add(before)


def chain(connection: sa.Connection, root: str) -> list[str]:
    """The transfers of a chain of retries from its first one on, the latest last."""
    found = [root]
    while len(found) < MOST_RETRIES:
        query = sa.select(transfer.c.id).where(transfer.c.retry_of == found[-1], transfer.c.id.not_in(found))
        after = connection.execute(query.order_by(transfer.c.created_at.desc()).limit(1)).scalar_one_or_none()
        if after is None:
            break
        found.append(after)
    return found


def retry_beside(connection: sa.Connection, retry_of: str, transfer_id: str) -> str | None:
    """Another transfer that retries the same one as ``transfer_id`` does."""
    query = sa.select(transfer.c.id).where(transfer.c.retry_of == retry_of, transfer.c.id != transfer_id).limit(1)
    return connection.execute(query).scalar_one_or_none()


def _verified_by(written: str) -> str | None:
    """The transfer that is verified by one with this spec, if that is what it does."""
    if f'"{OPERATION_VERIFY}"' not in written:  # most are not, and reading one may take long
        return None
    spec, _ = stored.shown(written)
    return str(spec.options[verification.OF]) if spec.kind.of_record and verification.OF in spec.options else None


def is_http(actor: str) -> bool:
    """True when an actor is a client over HTTP."""
    return actor.partition(" ")[0] == "http"


def join(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str, idempotency_key: str | None) -> None:
    """Note that a submission goes on with the transfer: its key, and once for each actor that did not begin it."""
    if idempotency_key is not None:
        key = _key_of(actor, idempotency_key)
        connection.execute(submission_key.insert().values(key=key, transfer_id=row.id))
    if _client(row.created_by) == _client(actor):
        return
    of_actor = sa.select(event.c.number).where(
        event.c.transfer_id == row.id, event.c.kind == "joined", event.c.actor == actor
    )
    if connection.execute(of_actor.limit(1)).first() is None:
        events.append(connection, row.id, at, "joined", actor)


def renew(connection: sa.Connection, transfer_id: str, spec: ResolvedSpec, at: float, actor: str) -> None:
    """Go on with a newer key of the same name."""
    needs = identity.needs(spec)
    values = {"spec": stored.write(spec), "needs": needs, "lane": identity.lane(needs), "waits_for": None}
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(values))
    data = {"needs": json.loads(needs or "[]"), "spec": json.loads(values["spec"] or "null")}
    events.append(connection, transfer_id, at, "key_renewed", actor, data)


def _blocker(connection: sa.Connection, spec: TransferSpec, turn: int) -> str | None:
    """The first of the unfinished transfers before ``turn`` that write to the same keys."""
    mine = keyspace.prefix(spec)
    above = [mine[:size] for size in range(len(mine) + 1)]
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.spec)
        .where(
            UNFINISHED,
            transfer.c.target_place == keyspace.place(spec),
            transfer.c.turn < turn,
            sa.or_(
                transfer.c.target_prefix.in_(above),
                sa.and_(transfer.c.target_prefix >= mine, transfer.c.target_prefix <= mine + 4 * _LAST_CHARACTER),
            ),
        )
        .order_by(transfer.c.turn)
    )
    return next((row.id for row in rows if _overlaps(spec, row.spec)), None)


def _overlaps(spec: TransferSpec, written: str) -> bool:
    other, unsupported = stored.shown(written)
    # Where one writes to is not known if all of it is not.
    return unsupported is not None or keyspace.overlap(spec, other)


def blocked(connection: sa.Connection) -> list[str]:
    """Ids of transfers that wait for one that has ended."""
    other = transfer.alias("other")
    query = (
        sa.select(transfer.c.id)
        .join(other, other.c.id == transfer.c.blocked_by)
        .where(UNFINISHED, other.c.ended_at.is_not(None))
        .order_by(transfer.c.turn)
    )
    return list(connection.execute(query).scalars())


def unblock(connection: sa.Connection, transfer_id: str) -> sa.Row[Any] | None:
    """Let a transfer wait for the next one that writes to its keys; its row when there is none, so that it may begin.

    The caller holds the lock of submissions.

    Raises:
        UnsupportedError: this version does not know all of its spec.
    """
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.blocked_by is None or row.ended_at is not None:
        return None
    blocked_by = _blocker(connection, stored.read(row.spec), row.turn)
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(blocked_by=blocked_by))
    return row if blocked_by is None else None


def by_idempotency_key(connection: sa.Connection, key: str, actor: str) -> tuple[str, str] | None:
    """Id and spec (JSON) of the transfer that a submission with this key has begun, or gone on with.

    Each client over HTTP has keys of its own.
    """
    own = _key_of(actor, key)
    if (found := _by_key(connection, own)) is None and own != key:
        # An earlier version has kept keys without the client.
        before = _by_key(connection, key)
        found = before if before is not None and _client(before.created_by) == _client(actor) else None
    return None if found is None else (found.id, found.spec)


def _by_key(connection: sa.Connection, key: str) -> sa.Row[str, str, str] | None:
    went_on = sa.select(submission_key.c.transfer_id).where(submission_key.c.key == key)
    return connection.execute(
        sa.select(transfer.c.id, transfer.c.spec, transfer.c.created_by).where(
            sa.or_(transfer.c.idempotency_key == key, transfer.c.id.in_(went_on))
        )
    ).one_or_none()


def _key_of(actor: str, key: str) -> str:
    """An idempotency key as it is kept: with the client over HTTP, so that none meets those of another one."""
    return f"{_client(actor)}: {key}" if is_http(actor) else key


def ids_starting_with(connection: sa.Connection, prefix: str, limit: int) -> list[str]:
    # Ids are lower-case hexadecimal and "-": the range holds exactly those that start with the prefix.
    return list(
        connection.execute(
            sa.select(transfer.c.id)
            .where(transfer.c.id >= prefix, transfer.c.id < prefix + "~")
            .order_by(transfer.c.id)
            .limit(limit)
        ).scalars()
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Place of the work of a transfer in the queue."""

    lane: str | None
    priority: int


def unfinished(connection: sa.Connection, *, after: str, limit: int) -> dict[str, Place]:
    """Transfers that have not ended, wait for no other and are not paused, in the order of ids beyond ``after``."""
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.lane, transfer.c.priority)
        .where(transfer.c.id > after, UNFINISHED, transfer.c.blocked_by.is_(None), transfer.c.state != "paused")
        .order_by(transfer.c.id)
        .limit(limit)
    )
    return {row.id: Place(row.lane, row.priority) for row in rows}


def unfinished_states(connection: sa.Connection, limit: int) -> dict[str, TransferState]:
    """States of the newest transfers that have not ended, by id, the newest first."""
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.state)
        .where(UNFINISHED)
        .order_by(transfer.c.created_at.desc(), transfer.c.id)
        .limit(limit)
    )
    return {row.id: row.state for row in rows}


def row_of(connection: sa.Connection, transfer_id: str, *, lock: bool = False) -> sa.Row[Any] | None:
    query = sa.select(transfer).where(transfer.c.id == transfer_id)
    # Not locked against references: what workers report of the transfer is written meanwhile.
    return connection.execute(query.with_for_update(key_share=True) if lock else query).one_or_none()


def is_stopping(row: sa.Row[Any]) -> bool:
    """True when work on the transfer is to be given up: cancelled by a person, or a job-wide error is known."""
    return row.state == "cancelling" or row.error_code is not None


def is_paused(row: sa.Row[Any]) -> bool:
    """True when a person has paused the transfer: workers leave it, with its uploads open."""
    return row.state == "paused"


def resumed_state(row: sa.Row[Any]) -> TransferState:
    """The state of a paused transfer that is not paused any more."""
    if row.started_at is None:
        return "queued"
    return "planning" if row.planned_at is None else "running"


def pause(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str) -> None:
    """Pause a transfer that has not ended, whose row is locked."""
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(state="paused"))
    events.append(connection, row.id, at, "paused", actor)


def unpause(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str) -> None:
    """Let a paused transfer, whose row is locked, go on."""
    state = resumed_state(row)
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(state=state))
    events.append(connection, row.id, at, "resume_requested", actor)


def adjust(connection: sa.Connection, row: sa.Row[Any], adjustment: Adjustment, at: float, actor: str) -> None:
    """Change priority and limits of a transfer, whose row is locked."""
    values = asdict(adjustment)
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(values))
    events.append(connection, row.id, at, "adjusted", actor, values)


def adjustment_of(row: sa.Row[Any]) -> Adjustment:
    return Adjustment(row.priority, row.max_requests, row.max_bandwidth, row.tpslimit)


def paused(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, that are paused."""
    query = sa.select(transfer.c.id).where(transfer.c.id.in_(list(ids)), transfer.c.state == "paused")
    return set(connection.execute(query).scalars())


def adjustments(connection: sa.Connection, ids: Iterable[str]) -> list[Adjustment]:
    """Adjustments of these transfers, in no order."""
    wanted = list(ids)
    rows = connection.execute(sa.select(transfer).where(transfer.c.id.in_(wanted))) if wanted else ()
    return [adjustment_of(row) for row in rows]


_OWN_TALLY: Final = tally.alias("own_tally")

_HAS_FAILURES: Final = sa.select(_OWN_TALLY.c.transfer_id).where(
    _OWN_TALLY.c.transfer_id == transfer.c.id, _OWN_TALLY.c.failed > 0
)
"""Until migration 0014 a transfer with failures ended as ``done``. Its row stays so, since its receipt says it."""

STATE: Final = sa.case(
    (sa.and_(transfer.c.state == "done", _HAS_FAILURES.exists()), WITH_FAILURES), else_=transfer.c.state
)
"""The state of a transfer as it is shown."""


def has_state(states: Collection[str]) -> sa.ColumnElement[bool]:
    """True of transfers whose state, as it is shown, is one of these."""
    written = transfer.c.state.in_(states)
    if (WITH_FAILURES in states) == ("done" in states):
        return written
    ended_so = sa.and_(transfer.c.state == "done", _HAS_FAILURES.exists())
    return sa.or_(written, ended_so) if WITH_FAILURES in states else sa.and_(written, sa.not_(ended_so))


def in_states(
    connection: sa.Connection,
    states: Sequence[str],
    conditions: Sequence[sa.ColumnElement[bool]],
    *,
    with_failures: bool,
) -> list[str]:
    """Ids of all transfers in these states of which the conditions hold, the oldest first.

    With ``with_failures`` those of which something has failed, and which no other retries.
    """
    query = sa.select(transfer.c.id).where(has_state(states), *conditions)
    if ENDED_TRANSFER_STATES.isdisjoint(states):
        query = query.where(UNFINISHED)
    if with_failures:
        child = transfer.alias("child")
        retried = sa.select(child.c.id).where(child.c.retry_of == transfer.c.id)
        query = query.join(tally, tally.c.transfer_id == transfer.c.id)
        query = query.where(sa.or_(tally.c.failed > 0, transfer.c.state == "failed"), sa.not_(retried.exists()))
    return list(connection.execute(query.order_by(transfer.c.created_at, transfer.c.id)).scalars())


def stopping(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, whose work is to be given up."""
    rows = connection.execute(sa.select(transfer).where(transfer.c.id.in_(list(ids))))
    return {row.id for row in rows if is_stopping(row)}


def begin_plan(
    connection: sa.Connection, transfer_id: str, at: float, actor: str, worker_session: str
) -> sa.Row[Any] | None:
    """Record that a worker takes the transfer up; returns its row, or None when there is nothing to plan any more.

    Raises:
        AccessError, UnsupportedError: this process lacks what the transfer needs; nothing was recorded.
    """
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row) or row.planned_at is not None:
        return None
    spec = stored.read(row.spec)
    operations.require(spec.operation)
    identity.require(spec)
    connection.execute(
        transfer.update()
        .where(transfer.c.id == transfer_id)
        .values(state="planning", started_at=row.started_at or at, attended_by=worker_session, waits_for=None)
    )
    if row.attended_by != worker_session:  # else it begins anew by itself
        events.append(connection, transfer_id, at, "started" if row.attended_by is None else "resumed", actor)
    return row


def record_session(connection: sa.Connection, transfer_id: str, at: float, actor: str, worker_session: str) -> None:
    """Record that a worker session goes on with the transfer; adds an event when another session had it before."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or row.attended_by == worker_session:
        return
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(attended_by=worker_session))
    events.append(connection, transfer_id, at, "resumed", actor)


def set_target_absent(connection: sa.Connection, transfer_id: str, absent: bool) -> None:
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(target_absent=absent))


def end_plan(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """All of the source is in our rows."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.planned_at is not None or row.state in ENDED_TRANSFER_STATES:
        return
    state = "running" if row.state == "planning" else row.state
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(state=state, planned_at=at))
    totals = connection.execute(sa.select(tally).where(tally.c.transfer_id == transfer_id)).one()
    data = {"objects": totals.objects, "bytes": totals.bytes}
    events.append(connection, transfer_id, at, "planned", actor, data)


def request_cancel(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """Ask for a stop. Does nothing to a transfer that has ended or is stopping already, whatever for."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    # Nothing has begun, so nothing has to be undone.
    unborn = row.state == "queued" or (is_paused(row) and row.started_at is None)
    values: dict[str, Any] = {"state": "cancelled", "ended_at": at} if unborn else {"state": "cancelling"}
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(**values))
    events.append(connection, transfer_id, at, "cancel_requested", actor)
    if unborn:
        data = receipts.settle(connection, transfer_id, state="cancelled", totals=_NOTHING, ended_at=at)
        events.append(connection, transfer_id, at, "cancelled", actor, _NOTHING | data)


def request_stop(connection: sa.Connection, transfer_id: str, at: float, actor: str, code: str, message: str) -> None:
    """Record a job-wide error, the first one only: its batches stop, then ``finish`` makes the transfer ``failed``."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    connection.execute(
        transfer.update().where(transfer.c.id == transfer_id).values(error_code=code, error_message=message)
    )
    events.append(connection, transfer_id, at, "stopping", actor, {"code": code, "message": message})


def finish(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """Give the transfer its final state. To be called when its batches have ended; a second call does nothing."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES:
        return
    totals = _settle(connection, transfer_id)
    state: TransferState = WITH_FAILURES if totals["failed"] else "done"
    if row.state == "cancelling":
        state = "cancelled"
    elif row.error_code is not None:
        state = "failed"
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(state=state, ended_at=at))
    connection.execute(worker_live.delete().where(worker_live.c.transfer_id == transfer_id))
    _keep_chart(connection, transfer_id)
    data: dict[str, Any] = totals | receipts.settle(connection, transfer_id, state=state, totals=totals, ended_at=at)
    if state == "failed":
        data |= {"code": row.error_code, "message": row.error_message}
    events.append(connection, transfer_id, at, state, actor, data)
    delivery_mail_rows.fall_due(connection, transfer_id, at)


def _keep_chart(connection: sa.Connection, transfer_id: str) -> None:
    if connection.execute(sa.select(sample.c.at).where(sample.c.transfer_id == transfer_id).limit(1)).first() is None:
        return  # too short for samples, as most are

    from seqferry.db import charts

    charts.keep(connection, transfer_id)


def _settle(connection: sa.Connection, transfer_id: str) -> dict[str, int]:
    """Sum the batches of a transfer whose batches have ended into its tally; returns the sums.

    They are there already, unless a worker of a version without tallies had a hand in it.
    """
    sums = (sa.func.coalesce(sa.func.sum(batch.c[name]), 0).label(name) for name in _TOTALS)
    row = connection.execute(sa.select(*sums).where(batch.c.transfer_id == transfer_id)).one()
    # Postgres sums big integers as Decimal.
    totals = {name: int(getattr(row, name)) for name in _TOTALS}
    connection.execute(tally.update().where(tally.c.transfer_id == transfer_id).values(totals))
    return totals
