"""Putting work on the queue, in the caller's transaction: rows and their work appear together or not at all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

from seqferry.db import batches, changes
from seqferry.db.database import Database
from seqferry.model import names
from seqferry.model.errors import ConfigError
from seqferry.model.models import MAX_PRIORITY
from seqferry.model.shortages import find_shortage
from seqferry.planning import batching

if TYPE_CHECKING:
    from seqferry.dbos.library import DBOSClient

INTERNAL_QUEUE: Final = "_dbos_internal_queue"
"""Queue of DBOS itself, for a workflow that has no other."""

DEAD_STATES: Final = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""States in which DBOS will not run a workflow any more, though it has not come to its end."""

ENDED_STATE: Final = "SUCCESS"
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


def table_of(connection: sa.Connection) -> str:
    """Table of the workflows."""
    return "workflow_status" if connection.dialect.name == "sqlite" else f"{Queue.schema}.workflow_status"


@dataclass(frozen=True, slots=True)
class QueueSchedule:
    """A schedule as DBOS fires it.

    Attributes:
        definition: cron expression, time zone and context.
        last_fired_at: seconds since the epoch; 0 before the first time.
    """

    definition: tuple[str, str | None, Any]
    is_active: bool
    last_fired_at: float


class Queue:
    """The DBOS client of this process. Connects (and imports the library) on first use."""

    schema: ClassVar[str] = "dbos"
    """Schema of its tables on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._made: DBOSClient | None = None

    def migrate(self) -> None:
        """Create or upgrade the tables of DBOS.

        Raises:
            ConfigError: the user of the database may not, or the database cannot be used.
        """
        from seqferry.dbos.library import DBOS

        try:
            DBOS.migrate(self._database.direct_url.render_as_string(hide_password=False))
        except Exception as why:  # any error of the library: without its tables nothing works
            if (fault := self._database.fault(why) or find_shortage(why)) is not None:
                raise fault from why
            raise ConfigError(
                f"The tables of the work queue could not be made in the database {self._database.label}: "
                f"{type(why).__name__}. See that its user may create schemas and tables."
            ) from why

    def has_workflows(self, connection: sa.Connection) -> bool:
        """True when the database has tables of DBOS, and a workflow in them. PostgreSQL only."""
        table = table_of(connection)
        if connection.execute(sa.select(sa.func.to_regclass(table))).scalar() is None:
            return False
        return connection.execute(sa.text(f"select 1 from {table} limit 1")).first() is not None  # noqa: S608 - a constant

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
    ) -> None:
        """Add the workflows of a transfer that is not on the queue, and of its open batches."""
        self.enqueue_transfer(connection, transfer_id, lane, priority=priority)
        for number, biggest in batches.open_batch_sizes(connection, transfer_id):
            place = first_priority(priority) + batching.priority_of(biggest)
            self.enqueue_batch(connection, transfer_id, lane, number, place)

    def contains(self, connection: sa.Connection, transfer_id: str) -> bool:
        """True when the transfer is, or was, on the queue; in the caller's transaction.

        Would be replaced by ``list_workflows`` on a given connection.
        """
        query = sa.text(f"select 1 from {table_of(connection)} where workflow_uuid = :id")  # noqa: S608 - a constant
        return connection.execute(query, {"id": transfer_id}).first() is not None

    def prioritize(self, connection: sa.Connection, transfer_id: str, before: int, priority: int) -> None:
        """Change the priority of the waiting workflows of a transfer.

        Would be replaced by a verb that sets the priority of a waiting workflow; only ``enqueue`` takes one.
        """
        query = f"update {table_of(connection)} set priority = priority + :change where status = 'ENQUEUED' and {_OF}"  # noqa: S608 - constants
        change = first_priority(priority) - first_priority(before)
        connection.execute(sa.text(query), {"change": change, **_whose(transfer_id)})

    def requeue(self, connection: sa.Connection, workflow_id: str, executor_id: str, queue: str) -> None:
        """Put a running workflow of this executor back on a queue.

        Would be replaced by a ``resume_workflows`` that takes an executor id, and keeps attempts and deadline.
        """
        query = f"""
            update {table_of(connection)} set status = 'ENQUEUED', owner_xid = null, started_at_epoch_ms = null,
                queue_name = :queue, updated_at = :now
            where workflow_uuid = :id and status = 'PENDING' and executor_id = :me
        """  # noqa: S608 - a constant
        now = int(time.time() * 1000)
        connection.execute(sa.text(query), {"queue": queue, "now": now, "id": workflow_id, "me": executor_id})
        changes.notify(connection)

    def move(self, connection: sa.Connection, transfer_id: str, before: str | None, lane: str | None) -> None:
        """Move the workflows of a transfer to another lane. A running workflow stays until it is queued again.

        Would be replaced by a verb that changes the queue of a workflow, and keeps its state.
        """
        unfinished = "status in ('ENQUEUED', 'PENDING')"
        for queue in (names.QUEUE_TRANSFERS, names.QUEUE_BATCHES):
            query = (
                f"update {table_of(connection)} set queue_name = :lane "  # noqa: S608 - constants
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

    def schedules(self) -> dict[str, QueueSchedule]:
        """Schedules that DBOS fires, by name."""
        return {
            one["schedule_name"]: QueueSchedule(
                (one["schedule"], one["cron_timezone"], one["context"]),
                one["status"] == "ACTIVE",
                0.0 if (last := one["last_fired_at"]) is None else datetime.fromisoformat(last).timestamp(),
            )
            for one in self._client().list_schedules()
        }

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

    def stopped_batches(self, transfer_id: str, numbers: list[int]) -> tuple[list[int], list[int]]:
        """Batches, among the given ones, that DBOS has given up, and those whose workflows have ended.

        The end of a batch that is open after this call is lost.
        """
        by_id = {names.batch_workflow_id(transfer_id, number): number for number in numbers}
        found = self._client().list_workflows(
            workflow_ids=list(by_id), status=[*DEAD_STATES, ENDED_STATE], load_input=False, load_output=False
        )
        ended = sorted(by_id[one.workflow_id] for one in found if one.status == ENDED_STATE)
        return sorted(by_id[one.workflow_id] for one in found if one.status != ENDED_STATE), ended

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
            if workflow.status in DEAD_STATES or workflow.status == ENDED_STATE:
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
                from seqferry.dbos.library import DBOSClient, DBOSPortableJSONSerializer

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
