"""The routes of S3Mirror, so that a script written for it runs unchanged.

``/start_transfer`` answers as soon as both buckets have. The source is listed, and the keys of a list are looked up, in
the background. S3Mirror's status names every file from the first answer on, so the status waits for the listing: a
script that polls until ``transferred`` plus ``errors`` equals ``files`` must not see fewer files than there are. Where
the listing failed, the status counts one error, so that such a script ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, FailFast
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, ChangeableIdDep, Context, ContextDep, ServiceDep
from seqferry.api.documented import answers
from seqferry.api.problems import shortened
from seqferry.errors import ConfigError, ConflictError
from seqferry.models import ObjectRecord, Status
from seqferry.service import Service
from seqferry.spec import build_mirror_spec

log: Final = logging.getLogger("seqferry.api")

router = APIRouter(tags=["S3Mirror"])
crash_router = APIRouter(tags=["S3Mirror"])

_POLL_SECONDS: Final = 0.1
_PAGE: Final = 1000
_GIB: Final = 1024**3

_FILE_STATUS: Final = {
    "pending": "ENQUEUED",
    "active": "PENDING",
    "done": "SUCCESS",
    "skipped": "SUCCESS",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
}


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


@router.post("/start_transfer", responses=answers(400, 502, 504))
async def start_transfer(body: StartTransfer, context: ContextDep, actor: ActorDep) -> str:
    """Starts a transfer; answers with its id at once. What cannot be read is an error in the status."""
    spec = build_mirror_spec(body.src_bucket, body.src_prefix, body.src_keys, body.dst_bucket, body.dst_prefix)
    context.settings.policy.check(spec)
    await context.checks.check(spec)
    return await run_in_threadpool(context.service.submit, spec, actor=actor)


@router.get("/transfer_status/{transfer_id}")
async def transfer_status(transfer_id: str, context: ContextDep) -> StreamingResponse:
    """Counts, rate (GiB/s) and the status of each file (sizes in GiB, times in milliseconds since the epoch)."""
    status = await _listed(context, transfer_id)
    if not status.planned and not status.ended:
        raise ConfigError(f"The source of transfer {status.id} is still being listed; ask again later.")
    return StreamingResponse(_status_text(context.service, status), media_type="application/json")


@router.post("/cancel/{transfer_id}")
def cancel(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> None:
    """Stops a transfer; one that has ended stays as it is."""
    try:
        service.cancel(transfer_id, actor=actor)
    except ConflictError:
        log.info("transfer %s has ended already", transfer_id)


@crash_router.post("/crash_application")
def crash_application() -> None:
    """Ends the process at once, as a crash would, to show that nothing is lost."""
    log.warning("crashing, as was asked")
    os._exit(1)


async def _listed(context: Context, transfer_id: str) -> Status:
    """The status once the source is listed or the transfer has ended, or when the wait takes too long."""
    deadline = time.monotonic() + context.planning_timeout
    while True:
        status = await run_in_threadpool(context.service.status, transfer_id)
        if status.planned or status.ended or time.monotonic() > deadline:
            return status
        await asyncio.sleep(_POLL_SECONDS)


def _status_text(service: Service, status: Status) -> Iterator[str]:
    """The answer as JSON text, page by page, so that a million files need no more memory than a thousand.

    The counts come last and count what was written before them, so that they fit the list.
    """
    counts = {"files": 0, "SUCCESS": 0, "ERROR": 0}
    transferred = 0
    separator = '{"filewise":['
    after = 0
    while True:
        page = service.objects(status.id, after=after, limit=_PAGE)
        for record in page:
            file = _file(record, status)
            counts["files"] += 1
            if file["status"] in counts:
                counts[str(file["status"])] += 1
            if file["status"] == "SUCCESS":
                transferred += record.size
            yield separator + json.dumps(file)
            separator = ","
        if len(page) < _PAGE:
            break
        after = page[-1].row
    if counts["files"] == 0:
        yield separator
        if status.state == "failed":
            # The source could not be listed. Scripts poll until ``transferred`` plus ``errors`` is ``files``: one of
            # each, of an unnamed file, lets them end, and with an error.
            counts["files"] = counts["ERROR"] = 1
    seconds = (status.ended_at or time.time()) - (status.started_at or status.created_at)
    # The status knows parts of unfinished files, the list what has ended since the status was taken.
    rate = max(transferred, status.totals.bytes_done) / _GIB / seconds if seconds > 0 else 0.0
    rest = {"files": counts["files"], "transferred": counts["SUCCESS"], "errors": counts["ERROR"], "rate": rate}
    yield "]," + json.dumps(rest).removeprefix("{")


def _file(record: ObjectRecord, status: Status) -> dict[str, str | float | int | None]:
    word, error = _FILE_STATUS[record.state], record.error_message
    if record.state == "cancelled" and status.state == "failed":
        # S3Mirror knows no job-wide error: to it, each file that was not copied for that has failed.
        word, error = "ERROR", error or status.error_message
    return {
        "file": record.source_key.removeprefix(status.spec.strip),
        "size": record.size / _GIB,
        "status": word,
        "tstart": _milliseconds(record.started_at),
        "tend": _milliseconds(record.ended_at) if word == "SUCCESS" else None,
        "error": shortened(error) if error is not None else "None",
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
