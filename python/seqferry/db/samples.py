"""Throughput over time: what each worker has moved of each transfer, sampled while it works.

A row holds counters that grow from the worker's start, so that rows can be removed without a loss but of detail. Old
rows are thinned to one a minute, then one an hour, and deleted in the end; the newest row of an interval is the one
that stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db.tables import sample

if TYPE_CHECKING:
    from seqferry.db.database import Database
    from seqferry.db.worker_reports import Report

THINNED: Final[Sequence[tuple[float, float]]] = ((3600.0, 60.0), (7 * 86400.0, 3600.0))
"""Rows older than the first number of seconds are thinned to one in the second: a chart of a day has 1,440 points, one
of a quarter 2,160."""

KEPT_SECONDS: Final = 90 * 86400.0
"""Older rows are deleted. The totals of a transfer stay in its own row."""

MOST_POINTS: Final = 2000
"""Points of one reading: more than a chart has pixels."""

_DELETED_AT_ONCE: Final = 5000  # keeps the transaction short: other writers of SQLite wait for it
_THINNING_LOCK: Final = 7702


@dataclass(frozen=True, slots=True)
class Counts:
    bytes: int
    objects: int
    requests: int
    throttled: int


_COUNTERS: Final = tuple(field.name for field in fields(Counts))
_NOTHING: Final = (0,) * len(_COUNTERS)


@dataclass(frozen=True, slots=True)
class Point:
    """What all workers together did in the ``seconds`` that begin ``at`` (seconds since the epoch)."""

    at: float
    seconds: float
    counts: Counts


def take(connection: sa.Connection, database: Database, executor_id: str, reports: Mapping[str, Report]) -> None:
    """Record how far this worker is with each of its transfers."""
    now = database.now(connection)
    connection.execute(
        sample.insert(),
        [
            {
                "transfer_id": transfer_id,
                "executor_id": executor_id,
                "at": now,
                **{name: getattr(one, name) for name in _COUNTERS},
            }
            for transfer_id, one in sorted(reports.items())
        ],
    )


def read(
    connection: sa.Connection,
    transfer_id: str,
    *,
    since: float | None = None,
    until: float | None = None,
    points: int = 300,
) -> list[Point]:
    """The course of a transfer, oldest first, in equal intervals without gaps.

    The counts of all points add up to what was sampled between both times. Between two samples of a worker its work is
    spread evenly.

    Args:
        since: seconds since the epoch; None for the first sample.
        until: the same; None for the last sample.
        points: intervals at most, up to ``MOST_POINTS``. None is shorter than a second.
    """
    curves = _curves(connection, transfer_id)
    if not curves:
        return []
    since = min(curve.times[0] for curve in curves) if since is None else since
    until = max(curve.times[-1] for curve in curves) if until is None else until
    count = max(1, min(points, MOST_POINTS, int(until - since)))
    width = (until - since) / count
    if width <= 0:
        return []
    edges = [*(since + number * width for number in range(count)), until]
    totals = [_total(curves, edge) for edge in edges]
    return [
        Point(at, width, Counts(*(after - before for before, after in zip(first, second, strict=True))))
        for at, first, second in zip(edges, totals, totals[1:], strict=False)
    ]


def thin(connection: sa.Connection, database: Database) -> int:
    """Remove what is old, some thousand rows at most; returns how many.

    A row stays when it is the last of its interval, or the last one before the counters of a worker begin anew.
    """
    if not database.is_sqlite and not connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_THINNING_LOCK))):
        return 0  # another worker is at it
    now = database.now(connection)
    removed = _delete(connection, sa.select(*_KEY).where(sample.c.at < now - KEPT_SECONDS))
    for older, interval in THINNED:
        removed += _delete(connection, _superfluous(now - KEPT_SECONDS, now - older, interval))
    return removed


_KEY: Final = (sample.c.transfer_id, sample.c.executor_id, sample.c.at)


def _superfluous(since: float, until: float, interval: float) -> sa.Select[Any, Any, Any]:
    def following(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
        of_worker = [sample.c.transfer_id, sample.c.executor_id]
        return sa.func.lead(column).over(partition_by=of_worker, order_by=sample.c.at)

    # The cast rounds on Postgres and cuts off on SQLite: intervals begin elsewhere, and are as long.
    number = sa.cast(sample.c.at / interval, sa.BigInteger)
    grows = sa.and_(*(following(sample.c[name]) >= sample.c[name] for name in _COUNTERS))
    rows = (
        sa.select(*_KEY, (following(number) == number).label("same"), grows.label("grows"))
        .where(sample.c.at >= since, sample.c.at < until)
        .subquery()
    )
    return sa.select(rows.c.transfer_id, rows.c.executor_id, rows.c.at).where(rows.c.same, rows.c.grows)


def _delete(connection: sa.Connection, rows: sa.Select[Any, Any, Any]) -> int:
    chosen = rows.limit(_DELETED_AT_ONCE)
    return connection.execute(sample.delete().where(sa.tuple_(*_KEY).in_(chosen))).rowcount


@dataclass(frozen=True, slots=True)
class _Curve:
    """What one worker had done by each time, from nothing on."""

    times: list[float]
    values: list[tuple[int, ...]]

    def at(self, time: float) -> tuple[float, ...]:
        after = bisect_left(self.times, time)
        if after == 0:
            return tuple(map(float, _NOTHING))
        if after == len(self.times):
            return tuple(float(value) for value in self.values[-1])
        begin, end = self.times[after - 1], self.times[after]
        share = (time - begin) / (end - begin)
        return tuple(
            low + (high - low) * share for low, high in zip(self.values[after - 1], self.values[after], strict=True)
        )


def _curves(connection: sa.Connection, transfer_id: str) -> list[_Curve]:
    columns = [sample.c[name] for name in _COUNTERS]
    rows = connection.execute(
        sa.select(sample.c.executor_id, sample.c.at, *columns)
        .where(sample.c.transfer_id == transfer_id)
        .order_by(sample.c.executor_id, sample.c.at)
    )
    curves: dict[str, _Curve] = {}
    seen: dict[str, tuple[int, ...]] = {}
    for row in rows:
        values: tuple[Any, ...] = tuple(row)
        executor_id: str = values[0]
        at: float = values[1]
        counts: tuple[int, ...] = values[2:]
        if executor_id not in curves:
            # Where it began is not recorded: a moment before, so that what it had done by then counts.
            curves[executor_id] = _Curve([at - 1.0], [_NOTHING])
        curve = curves[executor_id]
        grown = tuple(now - before for now, before in zip(counts, seen.get(executor_id, _NOTHING), strict=True))
        # On SQLite each process has the same id, and counts from zero.
        grown = counts if min(grown) < 0 else grown
        seen[executor_id] = counts
        curve.times.append(at)
        curve.values.append(tuple(before + more for before, more in zip(curve.values[-1], grown, strict=True)))
    return list(curves.values())


def _total(curves: Sequence[_Curve], time: float) -> tuple[int, ...]:
    return tuple(round(sum(values)) for values in zip(*(curve.at(time) for curve in curves), strict=True))
