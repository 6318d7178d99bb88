"""Names that are shared by the API, the worker and the database.

They are stored in rows, so they are treated like a schema: renamed only by a migration, with an ADR.
"""

from typing import Final

APPLICATION: Final = "seqferry"
"""Owner stamped by DBOS on every workflow row."""

WORKFLOW_SHAPE: Final = "1"
"""DBOS application version. Raise it only when the order or the kind of steps of a workflow changes."""

QUEUE_TRANSFERS: Final = "transfers"
QUEUE_BATCHES: Final = "batches"
QUEUE_SCHEDULES: Final = "schedules"
"""Ticks of schedules: only ``serve`` and ``worker`` take from it."""


def queue_of(queue: str, lane: str | None) -> str:
    """The queue of a lane (``spec.identity.lane``): its workers can be the identities of its transfers."""
    return queue if lane is None else f"{queue}.{lane}"


def is_queue_of(queue: str, name: str) -> bool:
    """True for the name of this queue in any lane."""
    return name == queue or name.startswith(f"{queue}.")


PAUSED_LANE: Final = "paused"
"""The lane of paused transfers, which no worker takes from."""


WORKFLOW_TRANSFER: Final = "transfer"
WORKFLOW_BATCH: Final = "batch"
WORKFLOW_SCHEDULE: Final = "schedule"


REVIVALS: Final = 3
"""Most restarts of the workflow of a transfer after DBOS has given it up."""


def transfer_workflow_ids(transfer_id: str) -> list[str]:
    """The DBOS workflow ids of a transfer: the first, and those that go on when the one before was given up."""
    return [transfer_id, *(f"{transfer_id}:r{number}" for number in range(1, REVIVALS + 1))]


def batch_workflow_id(transfer_id: str, number: int) -> str:
    """The DBOS workflow id of a batch: derived, so that it can be addressed and is enqueued once."""
    return f"{transfer_id}:b{number:06d}"
