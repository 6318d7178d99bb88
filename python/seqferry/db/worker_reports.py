"""Reports of workers about transfers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
    data = list[str]()
    for transfer_id in (ids := sorted(reports)):
        known = {"bytes_recorded": recorded[transfer_id]} if transfer_id in recorded else {}
        data.append(json.dumps({**asdict(reports[transfer_id]), **known}, ensure_ascii=False))
    if not ids:
        return
    if database.is_sqlite:
        rows = [
            {"transfer_id": one, "executor_id": executor_id, "at": now, "data": text}
            for one, text in zip(ids, data, strict=True)
        ]
        connection.execute(sa.text(_UPSERT.format(rows="values (:transfer_id, :executor_id, :at, :data)")), rows)
    else:
        # In one statement: ends of transfers wait for these rows.
        values = {"executor_id": executor_id, "at": now, "ids": ids, "data": data}
        connection.execute(sa.text(_UPSERT.format(rows=_PAIRS)), values)


_PAIRS: Final = """
    select id, :executor_id, :at, data from unnest(cast(:ids as text[]), cast(:data as text[])) as pair (id, data)
"""
_UPSERT: Final = """
    insert into worker_live (transfer_id, executor_id, at, data) {rows}
    on conflict (transfer_id, executor_id) do update set at = excluded.at, data = excluded.data
"""


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
