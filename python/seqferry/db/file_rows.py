"""The objects of a transfer batch by batch, with the few columns that a list of files shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.tables import batch, object_


class BatchState(NamedTuple):
    """A batch as it is now. The rows of one that has ended do not change any more."""

    number: int
    state: str
    runs: int
    objects: int
    done: int
    skipped: int
    failed: int
    cancelled: int
    bytes_done: int


class FileRow(NamedTuple):
    source_key: str
    size: int
    state: str
    started_at: float | None
    ended_at: float | None
    error_message: str | None


_BATCHES: Final = (
    sa.select(*(batch.c[name] for name in BatchState._fields))
    .where(batch.c.transfer_id == sa.bindparam("id"))
    .order_by(batch.c.number)
)
_FILES: Final = (
    sa.select(*(object_.c[name] for name in FileRow._fields))
    .where(object_.c.transfer_id == sa.bindparam("id"), object_.c.batch_number == sa.bindparam("number"))
    .order_by(object_.c.id)
)


def batches(connection: sa.Connection, transfer_id: str) -> list[BatchState]:
    """All batches of a transfer in the order in which they were found."""
    return [BatchState(*row) for row in connection.execute(_BATCHES, {"id": transfer_id})]


def files(connection: sa.Connection, transfer_id: str, number: int) -> Sequence[sa.Row[Any]]:
    """The objects of a batch; the values of each are those of ``FileRow``."""
    return connection.execute(_FILES, {"id": transfer_id, "number": number}).all()
