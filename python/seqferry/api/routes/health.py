"""Is the process up, and can it do its work? Open to everybody: answers hold nothing of anybody's."""

from __future__ import annotations

from fastapi import APIRouter

from seqferry.api.deps import ServiceDep

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process is up")
def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz", summary="The database answers")
def readyz(service: ServiceDep) -> dict[str, str]:
    service.transfers(limit=1)
    return {"status": "ready"}
