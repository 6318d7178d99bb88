"""Ticks of schedules: DBOS fires the rows of the table ``schedule``; missed ticks are caught up.

In ``serve`` and ``worker`` only: a ``cp`` listens to no queue of schedules. DBOS fires in each process that it
runs in, also in a ``cp``; what is fired there waits on the queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from seqferry.db import schedule_rows
from seqferry.model.errors import ConfigError
from seqferry.service import schedules
from seqferry.service.cron import Cron
from seqferry.service.service import Service

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.schedules")

_CHECK_SECONDS: Final = 5.0
"""Between two checks for missed ticks, and for schedules that another worker or version has left with DBOS."""

_REST_SECONDS: Final = 60.0

_LATE_SECONDS: Final = 15.0
"""DBOS fires up to 10 s late, so that workers do not all fire together. A later tick was missed."""


def parse_due_time(due: Any) -> float:
    """The time that DBOS hands to the workflow of a tick: a ``datetime``, or text after it was stored."""
    found = due if isinstance(due, datetime) else datetime.fromisoformat(str(due))
    return found.timestamp()


def run_due(runtime: Runtime, due_at: float, context: Mapping[str, Any], run_id: str) -> None:
    """Run the step of a tick."""
    assert runtime.service is not None, "a worker has one"
    run = schedules.run_due(runtime.service, str(context["schedule"]), run_id, due_at, int(context["revision"]))
    if run is None or run.outcome == "submitted":
        return
    level = logging.WARNING if run.outcome == "failed" else logging.INFO
    log.log(level, "schedule %s: a run is %s: %s", context["name"], run.outcome, run.message)


class ScheduleReconciler:
    """Brings the schedules of DBOS in line with the table. One per worker, used by one thread."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._applied: dict[str, tuple[Any, ...]] | None = None
        self._caught_up: dict[str, float] = {}
        self._checked_at = float("-inf")
        self._last_warning = ""

    def rest_seconds(self) -> float:
        """Seconds between two calls while nothing changes: with no schedule there is nothing to miss."""
        return _CHECK_SECONDS if self._applied else _REST_SECONDS

    def reconcile(self) -> None:
        """Apply changes to DBOS; every few seconds, also check the tokens and missed ticks."""
        if time.monotonic() - self._checked_at >= _CHECK_SECONDS:
            self._pause_disallowed()
        with self._service.database.read() as connection:
            rows = schedule_rows.read_all(connection)
        wanted = {row.id: (row.cron, row.timezone, row.revision, row.state) for row in rows}
        is_first = self._applied is None
        is_due = time.monotonic() - self._checked_at >= _CHECK_SECONDS
        if wanted != self._applied or is_due:
            self._apply(rows)
            self._applied = wanted
        if is_due:
            self._checked_at = time.monotonic()
            self._catch_up(rows, late=0.0 if is_first else _LATE_SECONDS)
            self._forget(rows)

    def _pause_disallowed(self) -> None:
        try:
            paused = schedules.pause_disallowed(self._service)
        except ConfigError as why:
            # Once, and not at each check for as long as it lasts.
            if why.message != self._last_warning:
                log.warning("the tokens of schedules cannot be checked: %s", why.message)
            self._last_warning = why.message
            return
        self._last_warning = ""
        for name, why in paused.items():
            log.warning("schedule %s is paused: %s", name, why)

    def _apply(self, rows: list[sa.Row[Any]]) -> None:
        wanted: dict[str, tuple[str, str, dict[str, Any], bool]] = {}
        for row in rows:
            context = {"schedule": row.id, "name": row.name, "revision": row.revision}
            wanted[row.id] = (row.cron, row.timezone, context, row.state == schedule_rows.ACTIVE)
        self._service.queue.sync_schedules(wanted)

    def _catch_up(self, rows: list[sa.Row[Any]], *, late: float) -> None:
        """Fire the last tick of each schedule, if it was missed. DBOS knows by its id whether it was fired."""
        now = time.time()
        active = [row for row in rows if row.state == schedule_rows.ACTIVE]
        fired = self._service.queue.last_fired() if active else {}
        for row in active:
            fires = Cron(row.cron, row.timezone)
            due_at = fires.previous_time(now)
            fired_at = fired.get(row.id)
            if fired_at is None or due_at > now - late or self._caught_up.get(row.id) == due_at:
                continue
            if due_at > max(row.active_since, fired_at):
                log.info("schedule %s: the run of %s was missed and is caught up", row.name, _format_time(due_at))
                self._service.queue.trigger(row.id, datetime.fromtimestamp(due_at, fires.zone))
            self._caught_up[row.id] = due_at

    def _forget(self, rows: list[sa.Row[Any]]) -> None:
        for row in rows:
            with self._service.database.read() as connection:
                many = (
                    len(schedule_rows.runs(connection, row.id, schedule_rows.KEPT_RUNS + 1)) > schedule_rows.KEPT_RUNS
                )
            if many:
                with self._service.database.write(durable=False) as connection:
                    old = schedule_rows.prune_runs(connection, row.id)
                self._service.queue.delete(old)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
