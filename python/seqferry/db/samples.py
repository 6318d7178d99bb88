"""Throughput over time: samples of each transfer by worker, and of each engine.

A row holds counters that grow from the worker's start, so that removing rows loses only detail. Old rows are thinned to
one a minute, then one an hour, and deleted in the end; the newest row of an interval stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from operator import add, itemgetter, lt
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, try_acquire
from seqferry.db.tables import engine_sample, sample
from seqferry.model.frozen import frozen

if TYPE_CHECKING:
    from seqferry.db.database import Database
    from seqferry.db.worker_reports import Report

THINNED: Final[Sequence[tuple[float, float]]] = ((3600.0, 60.0), (7 * 86400.0, 3600.0))
"""Rows older than the first number of seconds are thinned to one in the second: a chart of a day has 1,440 points, one
of a quarter 2,160."""

KEPT_SECONDS: Final = 90 * 86400.0
"""Older rows are deleted. The totals of a transfer stay in its own row."""

MAX_POINTS: Final = 2000
"""Points of one reading: more than a chart has pixels."""

_DELETES_PER_TRANSACTION: Final = 5000  # keeps the transaction short: other writers of SQLite wait for it


@frozen
class Counts:
    bytes: int
    objects: int
    requests: int
    throttled: int


@frozen
class EngineCounts:
    """Counters of the requests of an engine.

    Attributes:
        bytes: object bytes that requests moved, within the service or through the process.
        waited_ms: milliseconds that all requests together waited for the right to begin.
        busy_ms: milliseconds that they were in flight: by its growth per millisecond, how many were at a time.
    """

    bytes: int
    requests: int
    retries: int
    throttled: int
    hedges: int
    waited_ms: int
    busy_ms: int


C = TypeVar("C")


@frozen
class Point(Generic[C]):
    """Work of all workers together in the ``seconds`` that begin ``at`` (seconds since the epoch)."""

    at: float
    seconds: float
    counts: C
    workers: int = 0
    """Workers with a sample in the interval or on both sides of it."""


class _Series(NamedTuple):
    """A table of counters that grow, and what one run of them belongs to."""

    table: sa.Table
    owner: tuple[sa.Column[Any], ...]
    counters: tuple[str, ...]

    @property
    def key(self) -> tuple[sa.Column[Any], ...]:
        return (*self.owner, self.table.c.at)


_TRANSFERS: Final = _Series(
    sample, (sample.c.transfer_id, sample.c.executor_id), tuple(field.name for field in fields(Counts))
)
_ENGINES: Final = _Series(
    engine_sample, (engine_sample.c.executor_id,), tuple(field.name for field in fields(EngineCounts))
)


def record(connection: sa.Connection, database: Database, executor_id: str, reports: Mapping[str, Report]) -> None:
    """Record a sample of each transfer of this worker."""
    now = database.now(connection)
    connection.execute(
        sample.insert(),
        [
            {
                "transfer_id": transfer_id,
                "executor_id": executor_id,
                "at": now,
                **{name: getattr(one, name) for name in _TRANSFERS.counters},
            }
            for transfer_id, one in sorted(reports.items())
        ],
    )


def record_engine(connection: sa.Connection, database: Database, executor_id: str, counts: EngineCounts) -> None:
    """Record a sample of the engine of this worker."""
    at = database.now(connection)
    connection.execute(engine_sample.insert().values(executor_id=executor_id, at=at, **asdict(counts)))


def read(
    connection: sa.Connection,
    transfer_id: str,
    *,
    since: float | None = None,
    until: float | None = None,
    points: int = 300,
) -> list[Point[Counts]]:
    """The throughput of a transfer, oldest first, in equal intervals without gaps.

    The counts of all points add up to what was sampled between both times. Between two samples of a worker its work is
    spread evenly.

    Args:
        since: seconds since the epoch; None for the first sample.
        until: the same; None for the last sample.
        points: intervals at most, up to ``MAX_POINTS``. None is shorter than a second.
    """
    curves = _curves(connection, _TRANSFERS, sample.c.transfer_id == transfer_id)
    return [
        Point(at, width, Counts(*counts), workers)
        for at, width, counts, workers in intervals(curves, since, until, points)
    ]


def read_engine(
    connection: sa.Connection,
    executor_id: str | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    points: int = 300,
) -> list[Point[EngineCounts]]:
    """The throughput of the engine of a worker, or of all workers (None); else as ``read``."""
    mine = sa.true() if executor_id is None else engine_sample.c.executor_id == executor_id
    curves = _curves(connection, _ENGINES, mine)
    return [
        Point(at, width, EngineCounts(*counts), workers)
        for at, width, counts, workers in intervals(curves, since, until, points)
    ]


def intervals(
    curves: Sequence[Curve], since: float | None, until: float | None, points: int
) -> list[tuple[float, float, tuple[int, ...], int]]:
    """Begin, length and growth of each interval, and the number of its workers."""
    if not curves:
        return []
    since = min(curve.times[0] for curve in curves) if since is None else since
    until = max(curve.times[-1] for curve in curves) if until is None else until
    count = max(1, min(points, MAX_POINTS, int(until - since)))
    width = (until - since) / count
    if width <= 0:
        return []
    edges = [*(since + number * width for number in range(count)), until]
    totals = [_total(curves, edge) for edge in edges]
    return [
        (
            at,
            width,
            tuple(after - before for before, after in zip(first, second, strict=True)),
            sum(curve.is_within(at, at + width) for curve in curves),
        )
        for at, first, second in zip(edges, totals, totals[1:], strict=False)
    ]


def thin(connection: sa.Connection, database: Database) -> int:
    """Remove some thousand old rows at most; returns their number.

    A row stays when it is the last of its interval, or the last one before the counters of a worker restart.
    """
    if not try_acquire(connection, AdvisoryLock.THINNING):
        return 0  # another worker is thinning
    now = database.now(connection)
    removed = 0
    for series in (_TRANSFERS, _ENGINES):
        removed += _delete(connection, series, sa.select(*series.key).where(series.table.c.at < now - KEPT_SECONDS))
        for older, interval in THINNED:
            superfluous = _superfluous(series, now - KEPT_SECONDS, now - older, interval)
            removed += _delete(connection, series, superfluous)
    return removed


def _superfluous(series: _Series, since: float, until: float, interval: float) -> sa.Select[*tuple[Any, ...]]:
    columns = series.table.c

    def following(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
        return sa.func.lead(column).over(partition_by=series.owner, order_by=columns.at)

    # The cast rounds on Postgres and cuts off on SQLite: intervals begin elsewhere, and are as long.
    number = sa.cast(columns.at / interval, sa.BigInteger)
    grows = sa.and_(*(following(columns[name]) >= columns[name] for name in series.counters))
    rows = (
        sa.select(*series.key, (following(number) == number).label("same"), grows.label("grows"))
        .where(columns.at >= since, columns.at < until)
        .subquery()
    )
    return sa.select(*(rows.c[column.name] for column in series.key)).where(rows.c.same, rows.c.grows)


def _delete(connection: sa.Connection, series: _Series, rows: sa.Select[*tuple[Any, ...]]) -> int:
    chosen = rows.limit(_DELETES_PER_TRANSACTION)
    return connection.execute(series.table.delete().where(sa.tuple_(*series.key).in_(chosen))).rowcount


@frozen
class Curve:
    """Counters of one worker over time: the sums of its work up to each time, from zero on."""

    times: list[float]
    values: list[tuple[int, ...]]

    def is_within(self, begin: float, end: float) -> bool:
        """True when the curve overlaps the interval, also during a pause of the worker."""
        return self.times[0] < end and self.times[-1] > begin

    def at(self, time: float) -> tuple[float, ...]:
        after = bisect_left(self.times, time)
        if after == 0:
            return tuple(0.0 for _ in self.values[0])
        if after == len(self.times):
            return tuple(float(value) for value in self.values[-1])
        begin, end = self.times[after - 1], self.times[after]
        share = (time - begin) / (end - begin)
        return tuple(
            low + (high - low) * share for low, high in zip(self.values[after - 1], self.values[after], strict=True)
        )


def _curves(connection: sa.Connection, series: _Series, which: sa.ColumnElement[bool]) -> list[Curve]:
    columns = series.table.c
    rows: Sequence[Any] = connection.execute(
        sa.select(columns.executor_id, columns.at, *(columns[name] for name in series.counters))
        .where(which)
        .order_by(columns.executor_id, columns.at)
    ).all()  # thinning bounds them, and a row at a time takes three times as long
    nothing = (0,) * len(series.counters)
    curves: list[Curve] = []
    for _, of_one in groupby(rows, key=itemgetter(0)):
        before, offset = nothing, None
        curve = Curve([], [])
        curves.append(curve)
        for row in of_one:
            at: float = row[1]
            counts: tuple[int, ...] = row[2:]
            if not curve.times:
                # Its start is not recorded: assume one second before, so that the first sample counts.
                curve.times.append(at - 1.0)
                curve.values.append(nothing)
            if any(map(lt, counts, before)):
                offset = curve.values[-1]  # on SQLite each process has the same id, and counts from zero
            before = counts
            curve.times.append(at)
            curve.values.append(counts if offset is None else tuple(map(add, offset, counts)))
    return curves


def _total(curves: Sequence[Curve], time: float) -> tuple[int, ...]:
    return tuple(round(sum(values)) for values in zip(*(curve.at(time) for curve in curves), strict=True))
