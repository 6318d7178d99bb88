"""Pruning: the objects of transfers that ended long ago move, compressed, into their receipts.

A row of an object takes some 450 bytes with its indexes, and in a receipt some 60. Reports, audits and `verify` go on
as before; lists of objects are empty. Killed at any moment, the next run goes on: each batch is moved in one
transaction, after its rows were compared with its seal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from seqferry.db import delivery_mail_rows, transfer_pages
from seqferry.db.database import Database
from seqferry.db.paging import ALL_TRANSFERS, TransferFilter
from seqferry.db.record import events, receipts
from seqferry.db.tables import object_, sample, seal, tally, transfer
from seqferry.dbos.queue import Queue
from seqferry.model import names
from seqferry.model.errors import ConflictError
from seqferry.model.frozen import frozen

_PAGE: Final = 500
"""Transfers of one query, and workflows of one removal."""


@frozen
class PrunedTransfer:
    """A transfer that was pruned, or would be."""

    id: str
    ended_at: float
    objects: int
    archived_bytes: int = 0


def prune(
    database: Database,
    queue: Queue,
    *,
    ended_before: float,
    now: float,
    actor: str,
    wanted: TransferFilter = ALL_TRANSFERS,
    dry_run: bool = False,
) -> Iterator[PrunedTransfer]:
    """Prune all wanted transfers that ended before a time and are not needed by a retry that goes on.

    Raises:
        ConflictError: the rows of a batch are not those of its seal; that transfer stays as it is.
    """
    after = ""
    while found := _candidates(database, ended_before, wanted, after):
        for one in found:
            if dry_run:
                yield one
            else:
                yield _prune(database, queue, one, now, actor)
        after = found[-1].id


def count(database: Database, *, ended_before: float, wanted: TransferFilter = ALL_TRANSFERS) -> int:
    """Number of the transfers that ``prune`` would prune."""
    query = (
        sa.select(sa.func.count())
        .select_from(transfer)
        .where(*_prunable(ended_before, wanted, is_sqlite=database.is_sqlite))
    )
    with database.read() as connection:
        return connection.execute(query).scalar_one()


def _prunable(ended_before: float, wanted: TransferFilter, *, is_sqlite: bool) -> list[sa.ColumnElement[bool]]:
    child = transfer.alias("child")
    needed = sa.select(child.c.id).where(child.c.retry_of == transfer.c.id, child.c.ended_at.is_(None))
    ended = (transfer.c.ended_at < ended_before, transfer.c.pruned_at.is_(None), sa.not_(needed.exists()))
    return [*ended, *transfer_pages.conditions(wanted, is_sqlite=is_sqlite)]


def _candidates(database: Database, ended_before: float, wanted: TransferFilter, after: str) -> list[PrunedTransfer]:
    query = (
        sa.select(transfer.c.id, transfer.c.ended_at, tally.c.objects)
        .join(tally, tally.c.transfer_id == transfer.c.id)
        .where(transfer.c.id > after, *_prunable(ended_before, wanted, is_sqlite=database.is_sqlite))
        .order_by(transfer.c.id)
        .limit(_PAGE)
    )
    with database.read() as connection:
        return [PrunedTransfer(row.id, row.ended_at, row.objects) for row in connection.execute(query)]


def _prune(database: Database, queue: Queue, one: PrunedTransfer, now: float, actor: str) -> PrunedTransfer:
    with database.read() as connection:
        numbers = receipts.batch_numbers(connection, one.id)
    for number in numbers:
        with database.write(durable=False) as connection:
            _archive(connection, one.id, number)
    size = sa.func.coalesce(sa.func.sum(sa.func.length(seal.c.archive)), 0)
    with database.write() as connection:
        held = connection.execute(sa.select(transfer.c.pruned_at).where(transfer.c.id == one.id).with_for_update())
        if held.scalar() is None:
            archived = connection.execute(sa.select(size).where(seal.c.transfer_id == one.id)).scalar_one()
            delivery_mail_rows.delete_for_transfer(connection, one.id)
            connection.execute(sample.delete().where(sample.c.transfer_id == one.id))
            connection.execute(transfer.update().where(transfer.c.id == one.id).values(pruned_at=now))
            events.append(connection, one.id, now, "pruned", actor, {"objects": one.objects})
        else:
            archived = 0  # another process came first
    workflows = [*names.transfer_workflow_ids(one.id), *(names.batch_workflow_id(one.id, each) for each in numbers)]
    for start in range(0, len(workflows), _PAGE):
        queue.delete(workflows[start : start + _PAGE])
    return PrunedTransfer(one.id, one.ended_at, one.objects, int(archived))


def _archive(connection: sa.Connection, transfer_id: str, number: int) -> None:
    """Move the rows of a batch into its seal, unless they are there."""
    of_batch = (seal.c.transfer_id == transfer_id, seal.c.number == number)
    found = connection.execute(sa.select(seal.c.root, seal.c.archive).where(*of_batch).with_for_update()).one_or_none()
    if found is None or found.archive is not None:
        return
    tree, rows = receipts.new_tree(), list(receipts.read_stored_rows(connection, transfer_id, number))
    tree.add(rows)
    if tree.root().hex() != found.root:
        raise ConflictError(
            f"Transfer {transfer_id} is not pruned: the objects of its batch {number} are not as they were recorded. "
            f"See what was changed with: seqferry audit verify {transfer_id}"
        )
    connection.execute(seal.update().where(*of_batch).values(archive=receipts.pack(iter(rows))))
    connection.execute(object_.delete().where(object_.c.transfer_id == transfer_id, object_.c.batch_number == number))
