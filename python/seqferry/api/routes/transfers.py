"""``/api/v1/transfers``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response, status
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, ChangeableIdDep, ContextDep, ServiceDep
from seqferry.api.schemas import ObjectOut, ObjectPage, Submitted, TransferOut, TransferPage, TransferRequest
from seqferry.errors import UsageError
from seqferry.models import ObjectState
from seqferry.unpacking import build_operation_spec

router = APIRouter(prefix="/api/v1/transfers", tags=["transfers"])


@router.post(
    "",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Start a transfer",
    responses={status.HTTP_200_OK: {"model": Submitted, "description": "The same transfer is unfinished and goes on"}},
)
async def submit(
    body: TransferRequest,
    context: ContextDep,
    actor: ActorDep,
    response: Response,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Submitted:
    """Looks at both buckets, records the transfer and answers at once; the same Idempotency-Key gives the same id.

    When the same transfer, submitted with the same token, is unfinished, the answer is 200 and its id.
    """
    service = context.service
    spec = build_operation_spec(body.operation, body.options, **body.arguments())
    context.settings.policy.check(spec)
    transfer_id = await run_in_threadpool(service.submitted, spec, idempotency_key) if idempotency_key else None
    if transfer_id is None:
        await context.checks.check(spec)
        submission = await run_in_threadpool(
            service.submission, spec, actor=actor, idempotency_key=idempotency_key, new=body.new
        )
        transfer_id = submission.id
        if submission.goes_on:
            response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"{router.prefix}/{transfer_id}"
    return Submitted(id=transfer_id)


@router.get("", summary="The newest transfers, newest first")
def list_transfers(service: ServiceDep, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> TransferPage:
    return TransferPage(transfers=[TransferOut.of(one) for one in service.transfers(limit)])


@router.get("/{transfer_id}", summary="One transfer, now")
def get_transfer(transfer_id: str, service: ServiceDep) -> TransferOut:
    return TransferOut.of(service.status(transfer_id))


@router.get("/{transfer_id}/objects", summary="The fate of each object")
def list_objects(
    transfer_id: str,
    service: ServiceDep,
    state: ObjectState | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> ObjectPage:
    found = service.objects(transfer_id, state=state, after=_after(cursor), limit=limit)
    return ObjectPage(
        objects=[ObjectOut.of(one) for one in found],
        next_cursor=str(found[-1].row) if len(found) == limit else None,
    )


@router.post("/{transfer_id}/cancel", status_code=status.HTTP_202_ACCEPTED, summary="Stop a transfer")
def cancel(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    return TransferOut.of(service.cancel(transfer_id, actor=actor))


def _after(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise UsageError("The cursor is not one that this server gave; leave it out to begin at the start.")
    return int(cursor)
