"""Putting work on the queue, in the caller's transaction: rows and their work appear together or not at all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
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

_OF: Final = "workflow_uuid like :id || '%'"
"""Workflows of one transfer: their ids begin with its own."""


def first_priority(priority: int) -> int:
    """First value of DBOS's priority for a transfer of this priority; values by size of batch follow it."""
    return PRIORITY_STEP * (MAX_PRIORITY - priority)


def table_of(connection: sa.Connection) -> str:
    """Table of the workflows."""
    return "workflow_status" if connection.dialect.name == "sqlite" else f"{Queue.schema}.workflow_status"


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
        self, connection: sa.Connection, transfer_id: str, lane: str | None, *, priority: int = 0, revival: int = 0
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
        self, connection: sa.Connection, transfer_id: str, lane: str | None, priority: int
    ) -> None:
        """Add the workflows of a transfer that is not on the queue, and of its open batches."""
        self.enqueue_transfer(connection, transfer_id, lane, priority=priority)
        for number, biggest in batches.open_batch_sizes(connection, transfer_id):
            place = first_priority(priority) + batching.priority_of(biggest)
            self.enqueue_batch(connection, transfer_id, lane, number, place)

    def contains(self, connection: sa.Connection, workflow_id: str) -> bool:
        """True when the workflow is, or was, on the queue; in the caller's transaction."""
        # Would be replaced by ``list_workflows`` on a given connection.
        query = sa.text(f"select 1 from {table_of(connection)} where workflow_uuid = :id")  # noqa: S608 - a constant
        return connection.execute(query, {"id": workflow_id}).first() is not None

    def prioritize(self, connection: sa.Connection, transfer_id: str, before: int, priority: int) -> None:
        """Change the priority of the waiting workflows of a transfer."""
        # Would be replaced by a verb that sets the priority of a waiting workflow; only ``enqueue`` takes one.
        query = f"update {table_of(connection)} set priority = priority + :change where status = 'ENQUEUED' and {_OF}"  # noqa: S608 - constants
        change = first_priority(priority) - first_priority(before)
        connection.execute(sa.text(query), {"change": change, "id": transfer_id})

    def requeue(self, connection: sa.Connection, workflow_id: str, executor_id: str, queue: str) -> None:
        """Put a running workflow of this executor back on a queue."""
        # Would be replaced by a ``resume_workflows`` that takes an executor id, and keeps attempts and deadline.
        query = f"""
            update {table_of(connection)} set status = 'ENQUEUED', owner_xid = null, started_at_epoch_ms = null,
                queue_name = :queue, updated_at = :now
            where workflow_uuid = :id and status = 'PENDING' and executor_id = :me
        """  # noqa: S608 - a constant
        now = int(time.time() * 1000)
        connection.execute(sa.text(query), {"queue": queue, "now": now, "id": workflow_id, "me": executor_id})
        changes.notify(connection)

    def move(self, connection: sa.Connection, transfer_id: str, before: str | None, lane: str | None) -> None:
        """Move the workflows of a transfer to another lane. A running workflow stays until it is queued again."""
        # Would be replaced by a verb that changes the queue of a workflow, and keeps its state.
        unfinished = "status in ('ENQUEUED', 'PENDING')"
        for queue in (names.QUEUE_TRANSFERS, names.QUEUE_BATCHES):
            query = (
                f"update {table_of(connection)} set queue_name = :lane "  # noqa: S608 - constants
                f"where queue_name = :before and {unfinished} and {_OF}"
            )
            moved = {"before": names.queue_of(queue, before), "lane": names.queue_of(queue, lane), "id": transfer_id}
            connection.execute(sa.text(query), moved)
        changes.notify(connection)

    def cancel(self, workflow_ids: list[str]) -> None:
        """Cancel workflows that have nothing left to do. Running ones stop at their next step."""
        self._client().cancel_workflows(workflow_ids)

    def delete(self, workflow_ids: list[str]) -> None:
        """Delete ended workflows, with their steps."""
        self._client().delete_workflows(workflow_ids)

    def sync_schedules(self, wanted: Mapping[str, tuple[str, str, dict[str, Any], bool]]) -> None:
        """Make the schedules of DBOS these, by name: cron expression, time zone, context, and whether it is fired.

        Queued ticks of a deleted schedule stay.
        """
        client, has_changed = self._client(), False
        known = {one["schedule_name"]: one for one in client.list_schedules()}
        for name, (cron, timezone, context, is_active) in wanted.items():
            was = known.pop(name, None)
            if was is None or (was["schedule"], was["cron_timezone"], was["context"]) != (cron, timezone, context):
                client.apply_schedules(
                    [
                        {
                            "schedule_name": name,
                            "workflow_name": names.WORKFLOW_SCHEDULE,
                            "schedule": cron,
                            "context": context,
                            "automatic_backfill": False,
                            "cron_timezone": timezone,
                            "queue_name": names.QUEUE_SCHEDULES,
                        }
                    ]
                )
                has_changed = True
            if (was is None or was["status"] == "ACTIVE") != is_active:
                (client.resume_schedule if is_active else client.pause_schedule)(name)
                has_changed = True
        for name in known:
            client.delete_schedule(name)
        if has_changed or known:
            self._notify()  # DBOS itself notifies of none, and its threads rest

    def last_fired(self) -> dict[str, float]:
        """The time of the last tick of each schedule by name; 0 before the first one."""
        found = {one["schedule_name"]: one["last_fired_at"] for one in self._client().list_schedules()}
        return {name: 0.0 if at is None else datetime.fromisoformat(at).timestamp() for name, at in found.items()}

    def trigger(self, name: str, at: datetime) -> None:
        """Enqueue a tick of a schedule, unless it is, or was, on the queue."""
        second = timedelta(seconds=1)
        self._client().backfill_schedule(name, at - second, at + timedelta(milliseconds=1))

    def states(self, workflow_ids: Iterable[str]) -> dict[str, str]:
        """States of the workflows, among the given ones, that are, or were, on the queue."""
        found = self._client().list_workflows(workflow_ids=list(workflow_ids), load_input=False, load_output=False)
        return {workflow.workflow_id: workflow.status for workflow in found}

    def stopped_batches(self, transfer_id: str, numbers: list[int]) -> tuple[list[int], list[int]]:
        """Batches, among the given ones, that DBOS has given up, and those whose workflows have ended.

        The end of a batch that is open after this call is lost.
        """
        by_id = {names.batch_workflow_id(transfer_id, number): number for number in numbers}
        states = {by_id[workflow_id]: state for workflow_id, state in self.states(by_id).items()}
        return (
            sorted(number for number, state in states.items() if state in DEAD_STATES),
            sorted(number for number, state in states.items() if state == ENDED_STATE),
        )

    def restart_batch(self, transfer_id: str, number: int, lane: str | None) -> None:
        """Restart the workflow of a batch from its first step. It must not be running."""
        self._client().rewind_workflow(
            names.batch_workflow_id(transfer_id, number),
            application_version=names.WORKFLOW_SHAPE,
            queue_name=names.queue_of(names.QUEUE_BATCHES, lane),
        )
        self._notify()

    def dead_transfers(self, transfer_ids: list[str]) -> dict[str, int]:
        """Transfers of which DBOS runs no workflow any more, each with the number of its workflows.

        One that is unfinished after this was asked needs another.
        """
        owners = {each: owner for owner in transfer_ids for each in names.transfer_workflow_ids(owner)}
        dead, alive = Counter[str](), set[str]()
        for workflow_id, state in self.states(owners).items():
            if state in (*DEAD_STATES, ENDED_STATE):
                dead[owners[workflow_id]] += 1
            else:
                alive.add(owners[workflow_id])
        return {owner: count for owner, count in dead.items() if owner not in alive}

    def close(self) -> None:
        with self._lock:
            self._held.close()
            self._made = None

    def _notify(self) -> None:
        with self._database.write(durable=False) as connection:
            changes.notify(connection)

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
                self._held.callback(self._made.destroy)
            return self._made
