"""``/api/v1/workers``: the processes that do work."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from seqferry.api.deps import ServiceDep
from seqferry.model.workers import ProcessKind, ProcessStatus

router = APIRouter(prefix="/api/v1/workers", tags=["workers"])


class LimitsOut(BaseModel):
    max_requests: int
    """Requests in flight."""
    max_bandwidth: int | None
    """Bytes per second; null: any number."""
    tpslimit: int | None
    """Requests started per second; null: any number."""
    memory: int | None
    """Bytes of buffers."""


class WindowOut(BaseModel):
    """Limits found for requests to one prefix; bucket and prefix are empty for all others together."""

    bucket: str
    prefix: str
    access: str
    requests: int
    """Requests that may be in flight."""
    rate: float | None
    """Requests that may begin per second; null where the service has not throttled."""
    in_flight: int


class WorkerOut(BaseModel):
    id: str
    """One start of a process. On PostgreSQL also the ``worker`` of ``GET /api/v1/samples``."""
    name: str
    """Its name in events, after ``worker``."""
    kind: ProcessKind
    """``serve``: a server, which is a worker as well; ``http``: one that does no work."""
    host: str
    pid: int
    version: str
    schema_head: str
    """Newest migration of the database that it knows."""
    shape: str
    """Workers of another shape do not take each other's work."""
    alive: bool
    """It has given a sign of life in the last 30 s."""
    draining: bool
    """It ends when the batches that it is at have ended, and takes no others."""
    gone: bool
    """It was killed, and its work was given to others or another process is in its place."""
    since: datetime
    seen_at: datetime
    lanes: list[str | None]
    """Queues that it takes from; null: the one that any worker takes from."""
    limits: LimitsOut | None
    """Null before its first report."""
    resident_bytes: int | None
    transfers: int
    """Transfers that it is at."""
    requests_in_flight: int
    """0 for a gateway, whose requests are not counted."""
    windows: list[WindowOut]
    """Those with the most requests, at most 20."""
    facts: dict[str, Any]
    """Of its kind alone. Of a worker: ``own_work``, it was started for one transfer; of a server also its ``url``.
    Of a gateway: ``shares``, ``host``, ``port``, ``waiting``; ``GET /api/v1/shares`` has more."""

    @classmethod
    def of(cls, one: ProcessStatus) -> WorkerOut:
        activity = one.activity
        return cls(
            id=one.process.id,
            name=one.process.name,
            kind=one.process.kind,
            host=one.process.host,
            pid=one.process.pid,
            version=one.process.version,
            schema_head=one.process.schema_head,
            shape=one.process.shape,
            alive=one.alive,
            draining=one.draining,
            gone=one.gone,
            since=datetime.fromtimestamp(one.since, UTC),
            seen_at=datetime.fromtimestamp(one.seen_at, UTC),
            lanes=list(activity.lanes),
            limits=None if activity.limits is None else LimitsOut(**asdict(activity.limits)),
            resident_bytes=activity.resident,
            transfers=activity.transfers,
            requests_in_flight=activity.in_flight,
            windows=[WindowOut(**asdict(window)) for window in activity.windows],
            facts=activity.listed_facts,
        )


class Workers(BaseModel):
    workers: list[WorkerOut]
    """Those that are alive first; by the time of their start."""


@router.get("", summary="The processes that work")
def list_workers(service: ServiceDep) -> Workers:
    """With those that were killed within the last week: ``alive`` is false."""
    return Workers(workers=[WorkerOut.of(one) for one in service.workers()])
