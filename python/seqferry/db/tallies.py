"""Counters of batches, and tallies of transfers, which follow from the rows of objects.

**Invariant**: the counters of a batch are what its rows add up to. Rows that change are counted before and after, in
the same transaction, and the difference goes into the counters of their batches and the tally of the transfer. So a
tally is always the sum over batches, and the cost of a change does not depend on the size of the batch.
Locks are taken in this order: transfer, batches, tallies, each kind in the order of its key.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import batch, object_, tally

ARRIVED: Final = ("done", "skipped")
"""States of objects that are at the target."""

_HERE: Final = object_.c.state.in_(ARRIVED)

_COUNTERS: Final[dict[str, sa.ColumnElement[Any]]] = {
    # By state in columns, not in groups: the rows come in the order of the index, and need not be sorted.
    **{name: sa.func.count().filter(object_.c.state == name) for name in ("done", "skipped", "failed", "cancelled")},
    "bytes": sa.func.sum(object_.c.size),
    "bytes_done": sa.func.coalesce(sa.func.sum(object_.c.size).filter(_HERE), 0),
}

COUNTERS: Final = tuple(_COUNTERS)

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
    now = _sum_counters(connection, which)
    differences = {
        key: {name: count - was[key][name] for name, count in counters.items()} for key, counters in now.items()
    }
    add(connection, locked, differences.items(), **values)


def add(
    connection: sa.Connection,
    locked: Mapping[BatchKey, sa.Row[Any]],
    differences: Iterable[tuple[BatchKey, Mapping[str, int]]],
    **values: int,
) -> None:
    """Add to the counters of ``locked`` batches, and to the tallies of their transfers.

    ``values`` are set in the rows of these batches as well.
    """
    changes: dict[str, dict[str, int]] = {}
    updates: list[dict[str, Any]] = []
    for key, difference in differences:
        transfer_id, number = key
        change = changes.setdefault(transfer_id, dict.fromkeys(_COUNTERS, 0))
        update = {"of": transfer_id, "nth": number, **values}
        for name, count in difference.items():
            change[name] += count
            update[name] = getattr(locked[key], name) + count
        updates.append(update)
    if updates:
        connection.execute(_batch_update(), updates)
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
        counts = {name: count for name, count in change.items() if count}
        if counts:
            connection.execute(
                _tally_update(tuple(counts)),
                {"of": transfer_id, **{f"more_{name}": count for name, count in counts.items()}},
            )


# Made once: a statement takes longer to make than to execute.


@cache
def _batch_update() -> sa.Update:
    return batch.update().where(batch.c.transfer_id == sa.bindparam("of"), batch.c.number == sa.bindparam("nth"))


@cache
def _tally_update(names: tuple[str, ...]) -> sa.Update:
    """Adds ``more_NAME`` to each of these counters."""
    added = {name: tally.c[name] + sa.bindparam(f"more_{name}", type_=sa.BigInteger()) for name in names}
    return tally.update().where(tally.c.transfer_id == sa.bindparam("of")).values(added)
