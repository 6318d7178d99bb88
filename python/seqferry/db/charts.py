"""The throughput of a transfer in few points, stored at its end: its samples are thinned, and removed in the end."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from dataclasses import fields
from operator import add
from typing import Final

import sqlalchemy as sa

from seqferry.db import samples
from seqferry.db.samples import Counts, Curve, Point
from seqferry.db.tables import chart, transfer
from seqferry.model.frozen import frozen

KEPT_POINTS: Final = 200
"""As many points as a chart in a report shows, in some 6 KB."""

_COUNTERS: Final = tuple(field.name for field in fields(Counts))


def read(
    connection: sa.Connection,
    transfer_id: str,
    *,
    since: float | None = None,
    until: float | None = None,
    points: int = 300,
) -> list[Point[Counts]]:
    """The throughput of a transfer, as ``samples.read``: from its samples, or from the chart once those are thinned."""
    kept = _read_kept(connection, transfer_id)
    if kept is None:
        return samples.read(connection, transfer_id, since=since, until=until, points=points)
    return [
        Point(at, width, Counts(*counts), kept.workers_within(at, at + width))
        for at, width, counts, _ in samples.intervals([kept.curve], since, until, points)
    ]


def store(connection: sa.Connection, transfer_id: str) -> None:
    """Store the chart of an ended transfer, unless it is stored or there are no samples."""
    if connection.execute(sa.select(chart.c.since).where(chart.c.transfer_id == transfer_id)).first() is not None:
        return
    found = samples.read(connection, transfer_id, points=KEPT_POINTS)
    if not found:
        return
    rows = [[*(getattr(one.counts, name) for name in _COUNTERS), one.workers] for one in found]
    until = found[-1].at + found[-1].seconds
    text = json.dumps(rows, separators=(",", ":"))
    connection.execute(chart.insert().values(transfer_id=transfer_id, since=found[0].at, until=until, points=text))


@frozen
class _Kept:
    """The chart of a transfer."""

    curve: Curve
    workers: list[int]
    """Of each interval of the curve."""

    def workers_within(self, begin: float, end: float) -> int:
        edges = self.curve.times
        first, last = max(bisect_right(edges, begin) - 1, 0), bisect_left(edges, end)
        return max(self.workers[first : max(last, first + 1)], default=0)


def _read_kept(connection: sa.Connection, transfer_id: str) -> _Kept | None:
    """The chart, if samples have been thinned since; None if they have more detail."""
    row = connection.execute(
        sa.select(chart, transfer.c.ended_at, transfer.c.pruned_at)
        .join(transfer, transfer.c.id == chart.c.transfer_id)
        .where(chart.c.transfer_id == transfer_id)
    ).one_or_none()
    if row is None or (row.pruned_at is None and time.time() - row.ended_at < samples.THINNED[0][0]):
        return None
    points: list[list[int]] = json.loads(row.points)
    width = (row.until - row.since) / len(points)
    curve = Curve([row.since], [(0,) * len(_COUNTERS)])
    for number, (*counts, _) in enumerate(points, 1):
        curve.times.append(row.since + number * width)
        curve.values.append(tuple(map(add, curve.values[-1], counts)))
    return _Kept(curve, [workers for *_, workers in points])
