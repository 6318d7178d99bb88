"""Control of transfers: one by its id, or many at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, status
from pydantic import BaseModel, ConfigDict, Field

from seqferry.api.deps import ActorDep, ChangeableIdDep, IdentityDep, ServiceDep, is_own
from seqferry.api.documented import answers
from seqferry.api.fields import WHOLE
from seqferry.api.problems import shortened
from seqferry.api.schemas import Priority, Submitted, TransferOut
from seqferry.model.errors import NotFoundError, UsageError
from seqferry.model.models import TransferState
from seqferry.model.option_groups import MOST_STARTS
from seqferry.service import control
from seqferry.service.control import Filter, Result, Verb
from seqferry.service.service import Service
from seqferry.settings.config import MOST_REQUESTS
from seqferry.settings.tokens import Identity

router = APIRouter(prefix="/api/v1/transfers", tags=["transfers"])
actions = APIRouter(prefix="/api/v1", tags=["transfers"])


class Adjustment(BaseModel):
    """Changes of a transfer under way. A field that is left out stays; null gives a limit up."""

    model_config = ConfigDict(extra="forbid")

    priority: Priority = 0
    max_requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS), WHOLE] | None = None
    max_bandwidth: Annotated[str | None, Field(max_length=1000, examples=["50MB", "08:00,50MB/s 18:00,off"])] = None
    """Bytes per second through each process that works at it, or a timetable."""
    tpslimit: Annotated[int, Field(ge=1, le=MOST_STARTS), WHOLE] | None = None
    """Requests started per second by each such process."""


class Action(BaseModel):
    """A verb for many transfers: for those in ``ids``, or for all that the other fields select."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["pause", "resume", "retry", "cancel", "set"]
    ids: Annotated[list[str] | None, Field(max_length=1000)] = None
    all: Annotated[bool, Field(strict=True)] = False
    """Needed where neither ids nor another field says which."""
    states: list[TransferState] = []
    prefix: str | None = None
    """The start of the source or of the target."""
    created_by: str | None = None
    change: Adjustment | None = None
    """For ``set``."""


class ActionResult(BaseModel):
    id: str
    transfer: TransferOut | None = None
    """After the act; of a retry, the transfer that retries it."""
    code: str | None = None
    detail: str | None = None
    """The reason why it was not done."""

    @classmethod
    def of(cls, result: Result) -> ActionResult:
        if result.error is not None:
            return cls(id=result.id, code=result.error.code, detail=shortened(result.error.message))
        return cls(id=result.id, transfer=None if result.status is None else TransferOut.of(result.status))


class ActionResults(BaseModel):
    results: list[ActionResult]


@router.post(
    "/{transfer_id}/pause", status_code=status.HTTP_202_ACCEPTED, summary="Pause a transfer", responses=answers(409)
)
def pause(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    """Workers leave it within a second. Open uploads stay, so that no part is copied twice."""
    return TransferOut.of(control.pause(service, transfer_id, actor=actor))


@router.post(
    "/{transfer_id}/resume",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Let a paused transfer go on",
    responses=answers(409),
)
def resume(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    """One that is unfinished and not paused goes on by itself: nothing changes."""
    return TransferOut.of(control.resume(service, transfer_id, actor=actor))


@router.post(
    "/{transfer_id}/retry",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Copy what has failed of an ended transfer",
    responses=answers(409),
)
def retry(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> Submitted:
    """Answers with the id of the transfer that copies what has failed, and nothing else."""
    return Submitted(id=control.retry(service, transfer_id, actor=actor).id)


@router.patch(
    "/{transfer_id}", summary="Change priority or limits of a transfer under way", responses=answers(400, 409)
)
def adjust(transfer_id: ChangeableIdDep, body: Adjustment, service: ServiceDep, actor: ActorDep) -> TransferOut:
    return TransferOut.of(control.adjust(service, transfer_id, actor=actor, **_given(body)))


@actions.post("/actions", summary="The same for many transfers at once", responses=answers(400))
def act(body: Action, service: ServiceDep, actor: ActorDep, identity: IdentityDep) -> ActionResults:
    """An act that one transfer refuses is done to the others. Only transfers of the client's own are
    selected, unless its role is ``admin``."""
    by_filter = body.all or body.states or body.prefix is not None or body.created_by is not None
    if bool(body.ids) == bool(by_filter):
        raise UsageError("Say which transfers: give ids, or all, states, prefix or created_by.")
    if (body.action == "set") != (body.change is not None):
        raise UsageError("Give 'change' with the action 'set', and with no other.")
    verb: Verb = body.action
    which = Filter(tuple(body.states), body.prefix, body.created_by)
    ids = body.ids or control.selected(service, verb, which)
    own = [one for one in ids if _is_own(service, identity, one)]
    change = {} if body.change is None else _given(body.change)
    results = control.each(service, verb, own, actor=actor, **change)
    refused = [] if body.ids is None else [one for one in ids if one not in own]
    foreign = [
        ActionResult(id=one, code="not_allowed", detail="The transfer is not the client's own.") for one in refused
    ]
    return ActionResults(results=[ActionResult.of(one) for one in results] + foreign)


def _is_own(service: Service, identity: Identity, transfer_id: str) -> bool:
    """As ``is_own``; what is not there is found by the act."""
    try:
        return is_own(service, identity, transfer_id)
    except NotFoundError:
        return True


def _given(body: Adjustment) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.model_fields_set}
