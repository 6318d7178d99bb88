"""The number of workers that the open work needs, from the view ``seqferry_autoscale``.

The view (``migrations.autoscale_view``) holds the formula, so that autoscaler, CLI and HTTP API read the same
number. Its assumptions:

- A worker does what the fastest worker did in a whole minute of the last day. A rate that is shared with others is
  lower, and a mean of such rates would ask for more workers the less they are of use.
- The knee is the number of workers beyond which more were of no use: within the last hour, three whole minutes with a
  fleet of which a fifth or more added nothing to the best minute.
- A transfer that is not listed yet counts as one batch, so that the first worker is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from seqferry.db.tables import autoscale_limit
from seqferry.model.frozen import frozen

LIMITS: Final = ("minimum", "maximum", "drain_minutes")
"""Names of the rows of ``autoscale_limit``."""


@frozen
class Autoscale:
    """One reading of the view.

    Attributes:
        wanted_workers: from ``minimum`` to ``maximum``.
        transfers: unfinished ones that are not paused and wait for no other.
        backlog_bytes: found by listings, and not at the target.
        backlog_requests: estimated: one for each object, and one for each 128 MiB.
        open_batches: queued or active, and one for each transfer that is not listed to its end.
        bytes_per_second_alone, requests_per_second_alone: what one worker does by itself.
        knee: workers beyond which more are of no use; None while that was not seen.
        minimum, maximum: limits of the wish.
        drain_seconds: within which the backlog is to be done.
    """

    wanted_workers: int
    transfers: int
    backlog_bytes: int
    backlog_requests: int
    open_batches: int
    bytes_per_second_alone: float
    requests_per_second_alone: float
    knee: int | None
    minimum: int
    maximum: int
    drain_seconds: float


def read(connection: sa.Connection) -> Autoscale:
    """The wish now. The view always has one row."""
    row = connection.execute(sa.text("select * from seqferry_autoscale")).mappings().one()
    return Autoscale(**row)


def set_limits(connection: sa.Connection, limits: Mapping[str, float]) -> None:
    """Keep these limits, by their names in ``LIMITS``; others stay as they are."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    for name, value in limits.items():
        kept = insert(autoscale_limit).values(name=name, value=value)
        connection.execute(kept.on_conflict_do_update(index_elements=["name"], set_={"value": value}))
