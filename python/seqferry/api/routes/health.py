"""Health and readiness. No token is needed; without one the answers hold no data of a user.

Neither waits for a thread of the pool that other requests share.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client.exposition import choose_encoder

from seqferry.api.deps import ContextDep
from seqferry.api.problems import problem

router = APIRouter(tags=["health"])
metrics_router = APIRouter(tags=["health"])


@metrics_router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
)
def get_metrics(request: Request, context: ContextDep) -> Response:
    """Of this process's engine and of the control plane; the header ``Accept`` chooses the format."""
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(context.metrics), media_type=media_type)


@router.get("/healthz", summary="The process is up")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz", summary="The database answers; with a token also which one, or why not", response_model=None)
async def readyz(request: Request, context: ContextDep) -> dict[str, Any] | JSONResponse:
    refusal = await context.readiness.find_refusal()
    with_details = "identity" in request.scope.get("state", {})
    if refusal is not None:
        detail = refusal if with_details else "The server cannot do its work now; ask with a token for the reason."
        return problem(503, detail, "config", {"Retry-After": "5"})
    if with_details:
        return {"status": "ready", "database": context.settings.database_label}
    return {"status": "ready"}
