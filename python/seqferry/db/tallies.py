"""Counters of batches, and tallies of transfers, which follow from the rows of objects.

**Invariant**: the counters of a batch are what its rows add up to. Rows that change are counted before and after, in
the same transaction, and the difference goes into the counters of their batches and the tally of the transfer. So a
tally is always the sum over batches, and the cost of a change does not depend on the size of the batch.
Locks are taken in this order: transfer, batches, tallies, each kind in the order of its key.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import batch, object_, tally

_HERE: Final = object_.c.state.in_(("done", "skipped"))

_COUNTERS: Final[dict[str, sa.ColumnElement[Any]]] = {
    # By state in columns, not in groups: the rows come in the order of the index, and need not be sorted.
    **{name: sa.func.count().filter(object_.c.state == name) for name in ("done", "skipped", "failed", "cancelled")},
    "bytes": sa.func.sum(object_.c.size),
    "bytes_done": sa.func.coalesce(sa.func.sum(object_.c.size).filter(_HERE), 0),
}

BatchKey = tuple[str, int]
"""Transfer and number of a batch."""


@contextmanager
def counting(
    connection: sa.Connection, locked: Mapping[BatchKey, sa.Row[Any]], which: sa.ColumnElement[bool], **values: int
) -> Generator[None]:
    """Context of a change of the objects ``which``, all of ``locked`` batches: updates all counters at its end.

    ``values`` are set in the rows of their batches as well.
    """
    was = _sum_counters(connection, which)
    yield
    changes: dict[str, dict[str, int]] = {}
    updates: list[dict[str, Any]] = []
    for key, now in _sum_counters(connection, which).items():
        transfer_id, number = key
        change = changes.setdefault(transfer_id, dict.fromkeys(_COUNTERS, 0))
        update = {"of": transfer_id, "nth": number, **values}
        for name, count in now.items():
            difference = count - was[key][name]
            change[name] += difference
            update[name] = getattr(locked[key], name) + difference
        updates.append(update)
    if updates:
        connection.execute(
            batch.update().where(batch.c.transfer_id == sa.bindparam("of"), batch.c.number == sa.bindparam("nth")),
            updates,
        )
    add_to_tallies(connection, changes)


def _sum_counters(connection: sa.Connection, which: sa.ColumnElement[bool]) -> dict[BatchKey, dict[str, int]]:
    """Sums of the counters of objects, by batch."""
    rows = connection.execute(
        sa.select(
            object_.c.transfer_id, object_.c.batch_number, *(count.label(name) for name, count in _COUNTERS.items())
        )
        .where(which)
        .group_by(object_.c.transfer_id, object_.c.batch_number)
    )
    # Postgres sums big integers as Decimal.
    return {(row.transfer_id, row.batch_number): {name: int(getattr(row, name)) for name in _COUNTERS} for row in rows}


def add_to_tallies(connection: sa.Connection, changes: dict[str, dict[str, int]]) -> None:
    for transfer_id, change in sorted(changes.items()):
        values = {tally.c[name]: tally.c[name] + count for name, count in change.items() if count}
        if values:
            connection.execute(tally.update().where(tally.c.transfer_id == transfer_id).values(values))
