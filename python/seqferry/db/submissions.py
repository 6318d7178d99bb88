"""Submissions: they add a transfer, or join an existing one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.actors import client_of, is_http
from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.blocking import blocker_of
from seqferry.db.record import events, sealed_row
from seqferry.db.tables import event, submission_key, tally, transfer
from seqferry.db.transfers import UNFINISHED, is_stopping
from seqferry.model import labels
from seqferry.model.labels import Description
from seqferry.model.models import Adjustment, ResolvedSpec, TransferSpec
from seqferry.spec import identity, keyspace, stored

_UNADJUSTED: Final = Adjustment()


def lock_submissions(connection: sa.Connection) -> None:
    """Lock submissions by other processes until the transaction ends, so that its queries stay valid."""
    acquire(connection, AdvisoryLock.SUBMISSION)


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
    is_ended: bool = False,
) -> str | None:
    """Add a transfer, after those that are unfinished. The caller holds the lock of submissions.

    Args:
        is_ended: all of it has been done already: it waits for no other.

    Returns:
        The unfinished transfer that it waits for, since both write to the same keys.
    """
    text, needs = stored.write(spec), identity.needs(spec)
    turn = (connection.execute(sa.select(sa.func.max(transfer.c.turn)).where(UNFINISHED)).scalar() or 0) + 1
    blocked_by = None if is_ended else blocker_of(connection, spec, turn)
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
        "submission": identity.submission_digest(spec),
        "target_place": keyspace.target_store(spec),
        "target_prefix": keyspace.target_prefix(spec),
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
        data |= _data_of(description)
    events.append(connection, transfer_id, at, "submitted", actor, data)
    return blocked_by


def describe(connection: sa.Connection, row: sa.Row[Any], description: Description, at: float, actor: str) -> None:
    """Set name and labels of a transfer, whose row is locked. An event records a change."""
    if description == labels.read_stored(row.name, row.labels):
        return
    values = {"name": description.name, "labels": description.stored_labels()}
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(values))
    events.append(connection, row.id, at, "described", actor, _data_of(description))


def _data_of(description: Description) -> dict[str, Any]:
    return {"name": description.name, "labels": dict(description.labels)}


def find_same(connection: sa.Connection, spec: ResolvedSpec, actor: str) -> sa.Row[Any] | None:
    """The latest unfinished transfer of the same submission that is not being stopped.

    Over HTTP, only one that was submitted with the same token. One with other temporary credentials of the account
    counts only if it is the same actor's.
    """
    rows = connection.execute(
        sa.select(transfer)
        .where(transfer.c.submission == identity.submission_digest(spec), UNFINISHED)
        .order_by(transfer.c.turn.desc())
    )
    return next((row for row in rows if not is_stopping(row) and _goes_on(row, spec, actor)), None)


def _goes_on(row: sa.Row[Any], spec: TransferSpec, actor: str) -> bool:
    if client_of(row.created_by) == client_of(actor):
        return True
    written, unsupported = stored.read_legible(row.spec)
    return (
        not is_http(actor)
        and unsupported is None
        and identity.identity_proofs(written) == identity.identity_proofs(spec)
    )


def record_join(
    connection: sa.Connection, row: sa.Row[Any], at: float, actor: str, idempotency_key: str | None
) -> None:
    """Record that a submission joins the transfer: its idempotency key, and an event for each other actor."""
    if idempotency_key is not None:
        key = _key_of(actor, idempotency_key)
        connection.execute(submission_key.insert().values(key=key, transfer_id=row.id))
    if client_of(row.created_by) == client_of(actor):
        return
    of_actor = sa.select(event.c.number).where(
        event.c.transfer_id == row.id, event.c.kind == "joined", event.c.actor == actor
    )
    if connection.execute(of_actor.limit(1)).first() is None:
        events.append(connection, row.id, at, "joined", actor)


def replace_key(connection: sa.Connection, transfer_id: str, spec: ResolvedSpec, at: float, actor: str) -> None:
    """Replace the temporary credentials of a transfer by newer ones of the same name."""
    needs = identity.needs(spec)
    values = {"spec": stored.write(spec), "needs": needs, "lane": identity.lane(needs), "waits_for": None}
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(values))
    data = {"needs": json.loads(needs or "[]"), "spec": json.loads(values["spec"] or "null")}
    events.append(connection, transfer_id, at, "key_renewed", actor, data)


def by_idempotency_key(connection: sa.Connection, key: str, actor: str) -> tuple[str, str] | None:
    """Id and spec (JSON) of the transfer that a submission with this key has created or joined.

    Each client over HTTP has keys of its own.
    """
    own = _key_of(actor, key)
    went_on = sa.select(submission_key.c.transfer_id).where(submission_key.c.key == own)
    found = connection.execute(
        sa.select(transfer.c.id, transfer.c.spec).where(
            sa.or_(transfer.c.idempotency_key == own, transfer.c.id.in_(went_on))
        )
    ).one_or_none()
    return None if found is None else (found.id, found.spec)


def _key_of(actor: str, key: str) -> str:
    """An idempotency key as it is kept: with the client over HTTP, so that none meets those of another one."""
    return f"{client_of(actor)}: {key}" if is_http(actor) else key
