"""Putting work on the queue, in the caller's transaction: rows and their work appear together or not at all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db import changes
from seqferry.db.database import Database
from seqferry.db.dbos_logging import quieten_dbos
from seqferry.model import names
from seqferry.model.models import MAX_PRIORITY

if TYPE_CHECKING:
    from datetime import datetime

    from dbos import DBOSClient
    from dbos._sys_db import WorkflowSchedule

DEAD_STATES: Final = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""States in which DBOS will not run a workflow any more, though it has not come to its end."""

_ENDED: Final = "SUCCESS"
"""State of a workflow that has come to its end. Our rows may say otherwise: a server that lost its latest commits (it
does not sync them, or a replica took its place) may have lost ours, and get the end from a worker afterwards."""

PRIORITY_STEP: Final = 64
"""Between two priorities of transfers in the queue: more than there are places for sizes (``batching``)."""

_OF: Final = "substr(workflow_uuid, 1, :size) = :id"
"""Workflows of one transfer: their ids begin with its own."""


def first_priority(priority: int) -> int:
    """First value of DBOS's priority for a transfer of this priority; values by size of batch follow it."""
    return PRIORITY_STEP * (MAX_PRIORITY - priority)


def _whose(transfer_id: str) -> Mapping[str, str | int]:
    return {"id": transfer_id, "size": len(transfer_id)}


def _table(connection: sa.Connection) -> str:
    return "workflow_status" if connection.dialect.name == "sqlite" else "dbos.workflow_status"


class Queue:
    """The DBOS client of this process. Connects (and imports the library) on first use."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._made: DBOSClient | None = None

    def register(self, queue: str, worker_concurrency: int, polling_seconds: float) -> None:
        """Create or change the queue: all workers follow its row."""
        self._client().register_queue(
            queue, worker_concurrency=worker_concurrency, polling_interval_sec=polling_seconds
        )

    def enqueue_transfer(
        self,
        connection: sa.Connection,
        transfer_id: str,
        lane: str | None,
        *,
        priority: int = 0,
        revival: int = 0,
    ) -> None:
        """Add the workflow of a transfer; ``revival`` is the number of its workflows that failed before."""
        queue = names.queue_of(names.QUEUE_TRANSFERS, lane)
        workflow_id = names.transfer_workflow_ids(transfer_id)[revival]
        self._enqueue(
            connection, names.WORKFLOW_TRANSFER, queue, workflow_id, first_priority(priority) + 1, transfer_id
        )

    def enqueue_batch(
        self, connection: sa.Connection, transfer_id: str, lane: str | None, number: int, priority: int
    ) -> None:
        """Add the workflow of one batch. A lower ``priority`` (1 or more) is served earlier."""
        queue = names.queue_of(names.QUEUE_BATCHES, lane)
        workflow_id = names.batch_workflow_id(transfer_id, number)
        self._enqueue(connection, names.WORKFLOW_BATCH, queue, workflow_id, priority, transfer_id, number)

    def enqueue_with_batches(
        self,
        connection: sa.Connection,
        transfer_id: str,
        lane: str | None,
        priority: int,
        open_batches: Iterable[tuple[int, int]],
    ) -> None:
        """Add the workflows of a transfer that is not on the queue, and of its batches (number, value by size)."""
        self.enqueue_transfer(connection, transfer_id, lane, priority=priority)
        for number, place in open_batches:
            self.enqueue_batch(connection, transfer_id, lane, number, first_priority(priority) + place)

    def contains(self, connection: sa.Connection, transfer_id: str) -> bool:
        """True when the transfer is, or was, on the queue; in the caller's transaction."""
        query = sa.text(f"select 1 from {_table(connection)} where workflow_uuid = :id")  # noqa: S608 - a constant
        return connection.execute(query, {"id": transfer_id}).first() is not None

    def prioritize(self, connection: sa.Connection, transfer_id: str, before: int, priority: int) -> None:
        """Change the priority of the waiting workflows of a transfer."""
        query = f"update {_table(connection)} set priority = priority + :change where status = 'ENQUEUED' and {_OF}"  # noqa: S608 - constants
        change = first_priority(priority) - first_priority(before)
        connection.execute(sa.text(query), {"change": change, **_whose(transfer_id)})

    def requeue(self, connection: sa.Connection, workflow_id: str, executor_id: str, queue: str) -> None:
        """Put a running workflow of this executor back on a queue. DBOS has no public call for it."""
        query = f"""
            update {_table(connection)} set status = 'ENQUEUED', owner_xid = null, started_at_epoch_ms = null,
                queue_name = :queue, updated_at = :now
            where workflow_uuid = :id and status = 'PENDING' and executor_id = :me
        """  # noqa: S608 - a constant
        now = int(time.time() * 1000)
        connection.execute(sa.text(query), {"queue": queue, "now": now, "id": workflow_id, "me": executor_id})
        changes.notify(connection)

    def move(self, connection: sa.Connection, transfer_id: str, before: str | None, lane: str | None) -> None:
        """Move the workflows of a transfer to another lane.

        DBOS has no public call for it. A running workflow stays until it is queued again.
        """
        unfinished = "status in ('ENQUEUED', 'PENDING')"
        for queue in (names.QUEUE_TRANSFERS, names.QUEUE_BATCHES):
            query = (
                f"update {_table(connection)} set queue_name = :lane "  # noqa: S608 - constants
                f"where queue_name = :before and {unfinished} and {_OF}"
            )
            moved = {"before": names.queue_of(queue, before), "lane": names.queue_of(queue, lane)}
            connection.execute(sa.text(query), {**moved, **_whose(transfer_id)})
        changes.notify(connection)

    def cancel(self, workflow_ids: list[str]) -> None:
        """Cancel workflows that have nothing left to do. Running ones stop at their next step."""
        self._client().cancel_workflows(workflow_ids)

    def delete(self, workflow_ids: list[str]) -> None:
        """Delete ended workflows, with their steps."""
        self._client().delete_workflows(workflow_ids)

    def schedules(self) -> dict[str, WorkflowSchedule]:
        """Schedules that DBOS fires, by name."""
        return {one["schedule_name"]: one for one in self._client().list_schedules()}

    def apply_schedule(self, name: str, cron: str, timezone: str, context: Mapping[str, Any]) -> None:
        """Create or change a schedule of DBOS."""
        self._client().apply_schedules(
            [
                {
                    "schedule_name": name,
                    "workflow_name": names.WORKFLOW_SCHEDULE,
                    "schedule": cron,
                    "context": dict(context),
                    "automatic_backfill": False,
                    "cron_timezone": timezone,
                    "queue_name": names.QUEUE_SCHEDULES,
                }
            ]
        )

    def set_schedule_active(self, name: str, *, active: bool) -> None:
        """Resume or pause a schedule of DBOS."""
        if active:
            self._client().resume_schedule(name)
        else:
            self._client().pause_schedule(name)

    def remove_schedule(self, name: str) -> None:
        """Delete a schedule of DBOS. Queued ticks stay."""
        self._client().delete_schedule(name)

    def trigger(self, name: str, at: datetime) -> None:
        """Enqueue a tick of a schedule, unless it is, or was, on the queue."""
        second = timedelta(seconds=1)
        self._client().backfill_schedule(name, at - second, at + timedelta(milliseconds=1))

    def find_known(self, workflow_ids: list[str]) -> set[str]:
        """Workflows, among the given ones, that are, or were, on the queue."""
        found = self._client().list_workflows(workflow_ids=workflow_ids, load_input=False, load_output=False)
        return {workflow.workflow_id for workflow in found}

    def dead_batches(self, transfer_id: str, numbers: list[int]) -> list[int]:
        """Batches, among the given ones, that DBOS has given up."""
        return self._batches_in(transfer_id, numbers, DEAD_STATES)

    def _batches_in(self, transfer_id: str, numbers: list[int], states: Sequence[str]) -> list[int]:
        by_id = {names.batch_workflow_id(transfer_id, number): number for number in numbers}
        found = self._client().list_workflows(
            workflow_ids=list(by_id), status=list(states), load_input=False, load_output=False
        )
        return sorted(by_id[workflow.workflow_id] for workflow in found)

    def ended_batches(self, transfer_id: str, numbers: list[int]) -> list[int]:
        """Batches, among the given ones, whose workflows have ended. One that is open after this was asked is lost."""
        return self._batches_in(transfer_id, numbers, [_ENDED])

    def restart_batch(self, transfer_id: str, number: int, lane: str | None) -> None:
        """Restart the workflow of a batch from its first step. It must not be running."""
        self._client().rewind_workflow(
            names.batch_workflow_id(transfer_id, number),
            application_version=names.WORKFLOW_SHAPE,
            queue_name=names.queue_of(names.QUEUE_BATCHES, lane),
        )
        with self._database.write(durable=False) as connection:
            changes.notify(connection)

    def dead_transfers(self, transfer_ids: list[str]) -> dict[str, int]:
        """Transfers of which DBOS runs no workflow any more, each with the number of its workflows.

        One that is unfinished after this was asked needs another.
        """
        owners = {each: owner for owner in transfer_ids for each in names.transfer_workflow_ids(owner)}
        found = self._client().list_workflows(workflow_ids=list(owners), load_input=False, load_output=False)
        dead, alive = Counter[str](), set[str]()
        for workflow in found:
            owner = owners[workflow.workflow_id]
            if workflow.status in DEAD_STATES or workflow.status == _ENDED:
                dead[owner] += 1
            else:
                alive.add(owner)
        return {owner: count for owner, count in dead.items() if owner not in alive}

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.destroy()
                self._made = None
            self._held.close()

    def _enqueue(
        self, connection: sa.Connection, workflow: str, queue: str, workflow_id: str, priority: int, *args: Any
    ) -> None:
        self._client().enqueue_in_transaction(
            connection,
            {
                "workflow_name": workflow,
                "queue_name": queue,
                "workflow_id": workflow_id,
                "app_version": names.WORKFLOW_SHAPE,
                "priority": priority,
            },
            *args,
        )
        changes.notify(connection)

    def _client(self) -> DBOSClient:
        with self._lock:
            if self._made is None:
                quieten_dbos()
                from dbos import DBOSClient, DBOSPortableJSONSerializer

                engine = self._held.enter_context(self._database.dbos_engine(pool_size=4))
                self._made = DBOSClient(
                    system_database_engine=engine,
                    application_name=names.APPLICATION,
                    serializer=DBOSPortableJSONSerializer(),
                    # A database that went away is an error here, not an endless wait.
                    retry_connection_errors=False,
                    # Made within a transaction, which must not wait for another connection.
                    lazy=True,
                )
            return self._made
