"""Transfers on record, ended without a storage."""

from __future__ import annotations

from typing import Any

from control import planned, results, spec_number

from seqferry.db import batches, objects, planned_objects, transfers
from seqferry.service.service import Service

AT = 1_700_000_000.25
"""When objects ended, seconds since the epoch."""


def begin(service: Service, *, number: int = 1, actor: str = "ada") -> str:
    """A transfer that a worker has taken up."""
    transfer_id = service.submit(spec_number(number), actor=actor, queued=False)
    with service.database.write() as connection:
        assert transfers.begin_plan(connection, transfer_id, AT, "worker", "worker-1") is not None
    return transfer_id


def add_ended_batch(service: Service, transfer_id: str, keys: list[str], **facts: Any) -> int:
    """A batch whose objects have ended as ``facts`` say; its number."""
    with service.database.write() as connection:
        [batch] = planned_objects.add_batches(connection, transfer_id, [[planned(key, 10) for key in keys]], AT)
        run = batches.begin_batch(connection, transfer_id, batch, AT)
        assert run is not None
        end = {
            "state": "done",
            "size": 10,
            "etag": "etag",
            "method": "copy",
            "attempts": 1,
            "started_at": AT,
            "ended_at": AT + 1.5,
            "target_etag": "etag",
            "checksum_algorithm": "CRC64NVME",
            "checksum": "AAAAAAAAAAA=",
            "verified": "checksum",
        } | facts
        ids = [one.id for one in objects.open_objects(connection, run)]
        assert batches.record(connection, [(run, results(*({"id": one} | end for one in ids)))]) == {run}
        assert batches.close(connection, run, AT + 2)
    return batch


def finish(service: Service, transfer_id: str) -> None:
    with service.database.write() as connection:
        transfers.end_plan(connection, transfer_id, AT + 3, "worker")
        transfers.finish(connection, transfer_id, AT + 4, "worker")


def ended(service: Service, *, number: int = 1, batches: int = 3, each: int = 4) -> str:
    """A transfer with so many batches of so many objects, done; its id."""
    transfer_id = begin(service, number=number)
    for batch in range(batches):
        add_ended_batch(service, transfer_id, [f"b{batch}/größe {one}.gz" for one in range(each)])
    finish(service, transfer_id)
    return transfer_id
