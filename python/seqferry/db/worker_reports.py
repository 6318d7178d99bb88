"""Reports of workers about transfers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import worker_rows
from seqferry.db.database import Database, clock
from seqferry.db.tables import tally, worker_live
from seqferry.db.worker_rows import DeadWorker
from seqferry.model.frozen import frozen

_SUPERVISED_SECONDS: Final = 15.0
"""A worker that reported a transfer within this time may still write for it: its lease ends before."""

_EXECUTOR: Final = r"(.+)-([0-9]+)-[0-9a-f]{8}(?:@|$)"
"""Host and process in the name of a worker (``workflows.worker``)."""


@frozen
class Report:
    """A worker's view of one transfer. Counts since the worker began it; ``slowest`` as ``models.ActiveObject``.

    Attributes:
        bytes_in_progress: bytes at the target that no recorded object has.
    """

    bytes: int
    objects: int
    bytes_in_progress: int
    bytes_per_second: float
    in_flight: int
    requests: int
    retries: int
    throttled: int
    slowest: list[dict[str, Any]]


@frozen
class ReportingWorker:
    """A worker that reported a transfer ``silent`` seconds ago, and may still run it."""

    executor_id: str
    silent: float

    @property
    def process(self) -> str:
        """The worker as text."""
        found = re.match(_EXECUTOR, self.executor_id)
        return "another process" if found is None else f"process {found[2]} on {found[1]}"


def sum_recorded_bytes(connection: sa.Connection, transfer_ids: Sequence[str]) -> dict[str, int]:
    """Bytes of recorded objects of these transfers."""
    query = sa.select(tally.c.transfer_id, tally.c.bytes_done).where(tally.c.transfer_id.in_(transfer_ids))
    return {row.transfer_id: row.bytes_done for row in connection.execute(query)}


def report(
    connection: sa.Connection,
    database: Database,
    executor_id: str,
    reports: dict[str, Report],
    recorded: Mapping[str, int],
) -> None:
    """Write the reports of this worker.

    Args:
        recorded: bytes of recorded objects, as they were just before the reports were taken.
    """
    now = database.now(connection)
    rows: list[dict[str, Any]] = []
    for transfer_id, one in sorted(reports.items()):
        known = {"bytes_recorded": recorded[transfer_id]} if transfer_id in recorded else {}
        data = json.dumps({**asdict(one), **known}, ensure_ascii=False)
        rows.append({"transfer_id": transfer_id, "executor_id": executor_id, "at": now, "data": data})
    if rows:
        connection.execute(_upsert(is_sqlite=database.is_sqlite), rows)


def find_reporting_workers(connection: sa.Connection, database: Database, transfer_id: str) -> list[ReportingWorker]:
    """Workers that may still write for the transfer, the latest report first.

    A worker that is stopped or cut off may write for longer than ``LiveActivity`` shows it.
    """
    now = clock(is_sqlite=database.is_sqlite)
    query = sa.select(worker_live.c.executor_id, (now - worker_live.c.at).label("silent")).where(
        worker_live.c.transfer_id == transfer_id, worker_live.c.at > now - _SUPERVISED_SECONDS
    )
    rows = connection.execute(query.order_by(worker_live.c.at.desc()))
    return [ReportingWorker(row.executor_id, row.silent) for row in rows]


def delete_reports(connection: sa.Connection, executor_id: str) -> None:
    """Delete the reports of a worker that stops. Its row is removed by ``worker_rows.remove``."""
    connection.execute(worker_live.delete().where(worker_live.c.executor_id == executor_id))


def delete_all_reports(connection: sa.Connection) -> list[DeadWorker]:
    """Delete the reports of all workers, and mark these as dead; returns those that were killed.

    On SQLite, with the lock of the state folder."""
    connection.execute(worker_live.delete())
    return worker_rows.mark_dead(connection)


@cache
def _upsert(*, is_sqlite: bool) -> sa.Executable:
    """Writes rows of ``worker_live``, over those that are there."""
    if is_sqlite:
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    statement = insert(worker_live)
    new = {name: statement.excluded[name] for name in ("at", "data")}
    return statement.on_conflict_do_update(index_elements=["transfer_id", "executor_id"], set_=new)
