"""Transfers that had ended before they were put on record: what a gateway has uploaded.

What must stay true: all of a transfer is recorded in one transaction, so that none is seen unfinished, and no worker
takes it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from seqferry.db import bulk, submissions, transfers
from seqferry.db.record import receipts
from seqferry.db.tables import batch, transfer
from seqferry.db.tallies import add_to_tallies
from seqferry.model.frozen import frozen
from seqferry.model.labels import Description
from seqferry.model.models import ResolvedSpec
from seqferry.spec import keyspace

_BATCH: Final = 1000


@frozen
class EndedObject:
    """An object that has ended. Times are seconds since the epoch.

    Attributes:
        upload_number: tells uploads of one key apart.
        written_by: see ``ObjectRecord``.
        failed: class, code, operation and message of its failure; None: it is at its target.
    """

    key: str
    upload_number: int
    size: int
    last_modified: float
    written_by: str | None
    attempts: int
    started_at: float
    ended_at: float
    method: str | None = None
    target_etag: str | None = None
    target_version_id: str | None = None
    checksum_algorithm: str | None = None
    checksum: str | None = None
    verified: str | None = None
    failed: tuple[str, str, str, str] | None = None


def insert(
    connection: sa.Connection,
    spec: ResolvedSpec,
    objects: Sequence[EndedObject],
    *,
    transfer_id: str,
    actor: str,
    description: Description,
) -> bool:
    """Put a transfer with its objects on record, ended. False: it is there already, and nothing is added.

    It began with the first of its objects, and ended with the last. The commit is on the disk when it returns, also
    if the server has another ``synchronous_commit``: the caller deletes its objects then.
    """
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql("set local synchronous_commit to on")
    submissions.lock(connection, submissions.Keys(keyspace.target_store(spec), keyspace.target_prefix(spec)))
    if transfers.row_of(connection, transfer_id) is not None:
        return False
    began, ended = min(one.started_at for one in objects), max(one.ended_at for one in objects)
    submissions.insert(
        connection,
        spec,
        transfer_id=transfer_id,
        at=began,
        actor=actor,
        idempotency_key=None,
        description=description,
    )
    of_transfer = transfer.update().where(transfer.c.id == transfer_id)
    connection.execute(of_transfer.values(state="planning", started_at=began))
    for number, start in enumerate(range(0, len(objects), _BATCH)):
        _add_batch(connection, transfer_id, number, objects[start : start + _BATCH], ended)
    transfers.end_plan(connection, transfer_id, ended, actor)
    transfers.finish(connection, transfer_id, ended, actor)
    return True


def _add_batch(
    connection: sa.Connection, transfer_id: str, number: int, objects: Sequence[EndedObject], at: float
) -> None:
    done = [one for one in objects if one.failed is None]
    counters = {
        "objects": len(objects),
        "bytes": sum(one.size for one in objects),
        "done": len(done),
        "failed": len(objects) - len(done),
        "bytes_done": sum(one.size for one in done),
    }
    began = min(one.started_at for one in objects)
    values = {"state": "ended", "runs": 1, "started_at": began, "ended_at": at, **counters}
    connection.execute(batch.insert().values(transfer_id=transfer_id, number=number, **values))
    bulk.insert_ended(connection, transfer_id, number, [_row(one) for one in objects])
    add_to_tallies(connection, {transfer_id: counters})
    receipts.seal_batch(connection, transfer_id, number)


def _row(one: EndedObject) -> bulk.Row:
    failed = (None, None, None, None) if one.failed is None else one.failed
    return (
        one.key,
        one.upload_number,
        one.key,
        one.size,
        "",
        one.last_modified,
        one.written_by,
        "done" if one.failed is None else "failed",
        one.attempts,
        one.method,
        one.started_at,
        one.ended_at,
        one.target_etag,
        one.target_version_id,
        one.checksum_algorithm,
        one.checksum,
        one.verified,
        *failed,
    )
