"""``/api/v1/moves``, ``/removals``, ``/checks`` and ``/cleanups``: transfers of other kinds than copies.

Each is followed, listed and cancelled as a transfer, under ``/api/v1/transfers/{id}``.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Response, status
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, Context, ContextDep
from seqferry.api.openapi import problem_responses
from seqferry.api.schemas import Submitted
from seqferry.api.verb_bodies import (
    CheckRequest,
    CleanupRequest,
    MoveRequest,
    RemovalRequest,
    spec_of_check,
    spec_of_cleanup,
    spec_of_move,
    spec_of_removal,
)
from seqferry.model.labels import Description
from seqferry.model.models import TransferSpec

router = APIRouter(prefix="/api/v1", tags=["verbs"])

_TRANSFERS: Final = "/api/v1/transfers"
_GOES_ON: Final[dict[int | str, dict[str, Any]]] = problem_responses(400, 409, 502, 504) | {
    status.HTTP_200_OK: {"model": Submitted, "description": "The same one is unfinished and goes on"}
}
KeyHeader = Annotated[Annotated[str, Field(min_length=1, max_length=255)] | SkipJsonSchema[None], Header()]


@router.post("/moves", status_code=status.HTTP_202_ACCEPTED, summary="Move objects", responses=_GOES_ON)
async def start_move(
    body: MoveRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Copies, verifies, and then removes at the source what has arrived."""
    spec = await context.spec_of_sources(body, spec_of_move, key=idempotency_key, actor=actor)
    return await _start(
        context, spec, actor, response, idempotency_key, body.description(), new=body.new, priority=body.priority
    )


@router.post("/removals", status_code=status.HTTP_202_ACCEPTED, summary="Remove objects", responses=_GOES_ON)
async def start_removal(
    body: RemovalRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Removes objects, each on record before it is removed."""
    spec = context.spec_of(body, spec_of_removal)
    return await _start(context, spec, actor, response, idempotency_key, body.description())


@router.post("/checks", status_code=status.HTTP_202_ACCEPTED, summary="Compare two places", responses=_GOES_ON)
async def start_check(
    body: CheckRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Compares and changes nothing: identical objects end as skipped, all others as failed."""
    spec = await context.spec_of_sources(body, spec_of_check, key=idempotency_key, actor=actor)
    return await _start(
        context, spec, actor, response, idempotency_key, body.description(), new=body.new, priority=body.priority
    )


@router.post("/cleanups", status_code=status.HTTP_202_ACCEPTED, summary="Abort open uploads", responses=_GOES_ON)
async def start_cleanup(
    body: CleanupRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Aborts multipart uploads that were never completed."""
    spec = context.spec_of(body, spec_of_cleanup)
    return await _start(context, spec, actor, response, idempotency_key, body.description())


async def _start(
    context: Context,
    asked: TransferSpec,
    actor: str,
    response: Response,
    key: str | None,
    description: Description,
    *,
    new: bool = False,
    priority: int = 0,
) -> Submitted:
    service = context.service
    spec = await context.resolve(asked)
    transfer_id = await run_in_threadpool(service.find_submitted, spec, key, actor=actor) if key else None
    if transfer_id is None:
        await context.checks.check(spec)
        submission = await run_in_threadpool(
            service.submit_or_resume,
            spec,
            actor=actor,
            idempotency_key=key,
            new=new,
            priority=priority,
            description=description,
        )
        transfer_id = submission.id
        if submission.goes_on:
            response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"{_TRANSFERS}/{transfer_id}"
    return Submitted(id=transfer_id)
