"""Submissions: they add a transfer, or join an existing one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.actors import client_of, is_http
from seqferry.db.advisory import acquire_named
from seqferry.db.blocking import blocker_of
from seqferry.db.record import events, receipts, sealed_row
from seqferry.db.tables import TURNS, event, submission_key, tally, transfer
from seqferry.db.transfers import UNFINISHED, is_stopping
from seqferry.model import labels
from seqferry.model.frozen import frozen
from seqferry.model.labels import Description
from seqferry.model.models import Adjustment, ResolvedSpec, TransferSpec
from seqferry.spec import identity, keyspace, stored

_UNADJUSTED: Final = Adjustment()


@frozen
class Keys:
    """Keys that a submission may write to, and its idempotency key, if it has one.

    ``place`` is as ``keyspace.target_store``, ``prefix`` as ``keyspace.target_prefix``.
    """

    place: str
    prefix: str
    idempotency_key: str | None = None


def lock(connection: sa.Connection, *keys: Keys) -> None:
    """Exclude submissions that may write to the same keys, or have the same key, until the transaction ends.

    Those into folders beside each other do not wait: the lock of the folder is exclusive, those above are shared.
    Called once in a transaction, so that no two wait for each other.
    """
    exclusive, shared = list[str](), list[str]()
    for one in keys:
        folders = [at + 1 for at, character in enumerate(one.prefix) if character == "/"][:_LOCKED_FOLDERS]
        *above, own = (f"submission to {one.place}/{one.prefix[:end]}" for end in (0, *folders))
        shared += above
        exclusive.append(own)
        if one.idempotency_key is not None:
            exclusive.append(f"submission with {one.idempotency_key}")
    acquire_named(connection, exclusive, shared)


_LOCKED_FOLDERS: Final = 8
"""Depth of the folders that have locks of their own; deeper ones share that of the last."""


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
    near: Iterable[sa.Row[Any]] = (),
) -> str | None:
    """Add a transfer, after those that are unfinished. The caller holds the lock of its keys.

    Args:
        near: unfinished transfers (``blocking.find_near``). It waits for the first that writes to the same keys.

    Returns:
        The unfinished transfer that it waits for, since both write to the same keys.
    """
    text, needs = stored.write(spec), identity.needs(spec)
    blocked_by = blocker_of(spec, near)
    values = {
        "id": transfer_id,
        "state": "queued",
        "spec": text,
        "created_at": at,
        "created_by": actor,
        "idempotency_key": None if idempotency_key is None else _key_of(actor, idempotency_key),
        "needs": needs,
        "lane": identity.lane(needs),
        "turn": _LAST_TURN + 1 if connection.dialect.name == "sqlite" else TURNS.next_value(),
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
    sealed = {name: values[name] for name in sealed_row.COLUMNS}
    data: dict[str, Any] = {"spec": json.loads(text), sealed_row.SEALED: sealed}
    if blocked_by is not None:
        data["waits_for"] = blocked_by
    if description:
        data |= _data_of(description)
    rows = [transfer.insert().values(values), tally.insert().values(transfer_id=transfer_id, **receipts.NO_TOTALS)]
    events.append_first(connection, transfer_id, at, events.SUBMITTED, actor, data, rows)
    return blocked_by


_LAST_TURN: Final = sa.func.coalesce(sa.select(sa.func.max(transfer.c.turn)).where(UNFINISHED).scalar_subquery(), 0)


def describe(connection: sa.Connection, row: sa.Row[Any], description: Description, at: float, actor: str) -> None:
    """Set name and labels of a transfer, whose row is locked. An event records a change."""
    if description == labels.read_stored(row.name, row.labels):
        return
    values = {"name": description.name, "labels": description.stored_labels()}
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(values))
    events.append(connection, row.id, at, "described", actor, _data_of(description))


def _data_of(description: Description) -> dict[str, Any]:
    return {"name": description.name, "labels": dict(description.labels)}


def find_same(near: Sequence[sa.Row[Any]], spec: ResolvedSpec, actor: str) -> sa.Row[Any] | None:
    """The latest of these transfers that is of the same submission and is not being stopped.

    Over HTTP, only one that was submitted with the same token. One with other temporary credentials of the account
    counts only if it is the same actor's.
    """
    submission = identity.submission_digest(spec)
    same = (row for row in reversed(near) if row.submission == submission)
    return next((row for row in same if not is_stopping(row) and _goes_on(row, spec, actor)), None)


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
