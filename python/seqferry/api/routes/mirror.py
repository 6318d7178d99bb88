"""The routes of S3Mirror, so that a script written for it runs unchanged.

``/start_transfer`` answers as soon as both buckets have. The source is listed, and the keys of a list are looked up, in
the background. S3Mirror's status names every file from the first answer on, so the status waits for the listing: a
script that polls until ``transferred`` plus ``errors`` equals ``files`` must not see fewer files than there are. Where
the listing failed, the status counts one error, so that such a script ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, FailFast
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, ChangeableIdDep, Context, ContextDep, ServiceDep
from seqferry.api.file_status import compress
from seqferry.api.openapi import problem_responses
from seqferry.model.errors import ConfigError, ConflictError
from seqferry.model.models import Status
from seqferry.spec.build import build_mirror_spec

log: Final = logging.getLogger("seqferry.api")

router = APIRouter(tags=["S3Mirror"])
crash_router = APIRouter(tags=["S3Mirror"])

_POLL_SECONDS: Final = 0.1


class _FirstMistake(FailFast):
    """Stop at the first key that is no text: a list of 100,000 has as many mistakes."""

    def __hash__(self) -> int:  # a part of a union has to have one
        return 0


class StartTransfer(BaseModel):
    """Prefixes are plain strings, and keys follow ``src_prefix``."""

    src_bucket: str
    src_prefix: str = ""
    src_keys: Annotated[list[str], _FirstMistake()] | None = None
    dst_bucket: str
    dst_prefix: str = ""


@router.post("/start_transfer", responses=problem_responses(400, 502, 504))
async def start_transfer(body: StartTransfer, context: ContextDep, actor: ActorDep) -> str:
    """Starts a transfer and answers with its id immediately. A source that cannot be read is an error in the status."""
    named = body.src_bucket, body.src_prefix, body.src_keys, body.dst_bucket, body.dst_prefix
    context.settings.policy.check(asked := build_mirror_spec(*named))
    if context.defaults:
        asked = build_mirror_spec(*named, **context.defaults)
    spec = await context.resolve(asked)
    await context.checks.check(spec)
    return await run_in_threadpool(context.service.submit, spec, actor=actor)


@router.get(
    "/transfer_status/{transfer_id}",
    response_class=StreamingResponse,
    responses={304: {"description": "The files are as they were when the `ETag` in `If-None-Match` was given"}},
)
async def transfer_status(transfer_id: str, context: ContextDep, request: Request) -> Response:
    """Counts, rate (GiB/s) and the status of each file (sizes in GiB, times in milliseconds since the epoch).

    With an `ETag` for `If-None-Match`, and compressed for clients that take gzip.
    """
    status = await _wait_for_listing(context, transfer_id)
    if not status.planned and not status.ended:
        raise ConfigError(f"The source of transfer {status.id} is still being listed; ask again later.")
    answer = await run_in_threadpool(context.files.answer, context.service, status)
    headers = {"ETag": answer.etag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
    if answer.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    text = iter(answer)
    if _takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        text = compress(text)
    return StreamingResponse(text, headers=headers, media_type="application/json")


@router.post("/cancel/{transfer_id}")
def cancel_mirror(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> None:
    """Stops a transfer; has no effect if it has ended."""
    try:
        service.cancel(transfer_id, actor=actor)
    except ConflictError:
        log.info("transfer %s has ended already", transfer_id)


@crash_router.post("/crash_application")
@crash_router.post("/crash", name="crash")
def crash_application() -> None:
    """Ends the process immediately, as a crash would, to show that nothing is lost."""
    log.warning("crashing, as was asked")
    os._exit(1)


async def _wait_for_listing(context: Context, transfer_id: str) -> Status:
    """The status once the source is listed or the transfer has ended, or when the wait takes too long."""
    deadline = time.monotonic() + context.planning_timeout
    while True:
        status = await run_in_threadpool(context.service.status, transfer_id)
        if status.planned or status.ended or time.monotonic() > deadline:
            return status
        await asyncio.sleep(_POLL_SECONDS)


def _takes_gzip(request: Request) -> bool:
    offers = [one.strip().lower() for one in request.headers.get("accept-encoding", "").split(",")]
    return any(re.fullmatch(r"gzip(?:\s*;\s*q=(?:1|0\.0*[1-9]).*)?", one) for one in offers)
