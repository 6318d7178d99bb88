"""Control of transfers: one by its id, or many in one request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, status
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from seqferry.api.deps import ActorDep, ChangeableIdDep, IdentityDep, ServiceDep, is_own
from seqferry.api.fields import WHOLE
from seqferry.api.openapi import problem_responses
from seqferry.api.problems import shorten
from seqferry.api.schemas import Priority, Submitted, TransferOut, is_time, seconds
from seqferry.db.paging import ALL_TRANSFERS, TransferFilter
from seqferry.model import labels
from seqferry.model.errors import NotFoundError, UsageError
from seqferry.model.labels import MAX_LABELS, MAX_NAME_LENGTH
from seqferry.model.models import TransferState
from seqferry.model.option_groups import MAX_REQUEST_RATE
from seqferry.service import control
from seqferry.service.control import ControlResult, Verb
from seqferry.service.queries import check_count
from seqferry.service.service import Service
from seqferry.settings.config import MOST_REQUESTS
from seqferry.settings.tokens import Identity

MOST_SEEN = 1000

router = APIRouter(prefix="/api/v1/transfers", tags=["transfers"])
actions = APIRouter(prefix="/api/v1", tags=["transfers"])


class Adjustment(BaseModel):
    """Changes of an unfinished transfer. A field that is left out stays as it is; null removes a limit."""

    model_config = ConfigDict(extra="forbid")

    priority: Priority = 0
    max_requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS), WHOLE] | None = None
    max_bandwidth: Annotated[str | None, Field(max_length=1000, examples=["50MB", "08:00,50MB/s 18:00,off"])] = None
    """Bytes per second of each process that works at the transfer, or a timetable."""
    tpslimit: Annotated[int, Field(ge=1, le=MAX_REQUEST_RATE), WHOLE] | None = None
    """Requests started per second by each such process."""


class Change(Adjustment):
    """The same, and name and labels, which can also be set after the transfer has ended."""

    name: Annotated[str | None, Field(max_length=MAX_NAME_LENGTH, examples=["Run 43"])] = None
    """Null removes the name."""
    labels: Annotated[
        dict[str, str | None], Field(max_length=2 * MAX_LABELS, examples=[{"project": "X", "old": None}])
    ] = {}
    """Labels to set; null removes a label. Others stay."""


class RetryRequest(BaseModel):
    """A retry of some failed objects; without a body, of all of them."""

    model_config = ConfigDict(extra="forbid")

    cause: Annotated[str, Field(pattern="^[0-9a-f]{12}$")] | None = None
    """The ``id`` of one of `GET /api/v1/transfers/{id}/failures`."""
    expected: Annotated[int, Field(ge=0, le=2**31), WHOLE] | None = None
    """Expected number of failed objects, of that cause or in all. If it differs, the answer is 409 and nothing is
    done."""


Text = Annotated[str | None, Field(max_length=1024)]
Time = Annotated[AwareDatetime, BeforeValidator(is_time)]


class Action(BaseModel):
    """A verb for many transfers: for those in ``ids``, or for all that the other fields select.

    The fields that select are the filters of the list of transfers.
    """

    model_config = ConfigDict(extra="forbid")

    action: Literal["pause", "resume", "retry", "cancel", "set"]
    ids: Annotated[list[str] | None, Field(max_length=1000)] = None
    all: Annotated[bool, Field(strict=True)] = False
    """Select all transfers. Required if neither ids nor a filter is given."""
    states: list[TransferState] = []
    text: Text = None
    """Part of the id, the name, the source or the target."""
    prefix: Text = None
    """The start of the source or of the target."""
    person: Text = None
    """Part of the name of who started it."""
    created_by: Text = None
    """The start of that name."""
    name: Text = None
    """Part of its name."""
    label: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=MAX_LABELS)] = []
    """``key=value``, or ``key`` for any value. All of these."""
    created_after: Time | None = None
    created_before: Time | None = None
    expected: Annotated[int, Field(ge=0, le=2**31), WHOLE] | None = None
    """Expected number of selected transfers. If it differs, the answer is 409 and nothing is done."""
    dry_run: Annotated[bool, Field(strict=True)] = False
    """Only list the selected transfers: `count` is the number to be sent as `expected`."""
    change: Adjustment | None = None
    """For ``set``."""

    @property
    def filter(self) -> TransferFilter:
        return TransferFilter(
            states=tuple(self.states),
            text=self.text,
            prefix=self.prefix,
            person=self.person,
            created_by=self.created_by,
            name=self.name,
            labels=labels.parse_filter(self.label),
            since=seconds(self.created_after),
            until=seconds(self.created_before),
        )


class ActionResult(BaseModel):
    id: str
    transfer: TransferOut | None = None
    """State after the action; for a retry, that of the new transfer."""
    code: str | None = None
    detail: str | None = None
    """The reason why it was not done."""

    @classmethod
    def of(cls, result: ControlResult) -> ActionResult:
        if result.error is not None:
            return cls(id=result.id, code=result.error.code, detail=shorten(result.error.message))
        return cls(id=result.id, transfer=None if result.status is None else TransferOut.of(result.status))


class ActionResults(BaseModel):
    count: int
    """Transfers that were selected, or named."""
    results: list[ActionResult]
    """One for each; of a dry run at most 1,000, as they are."""


@router.post(
    "/{transfer_id}/pause",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Pause a transfer",
    responses=problem_responses(409),
)
def pause_transfer(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    """Workers suspend it within a second. Open multipart uploads stay, so that no part is copied twice."""
    return TransferOut.of(control.pause(service, transfer_id, actor=actor))


@router.post(
    "/{transfer_id}/resume",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Resume a paused transfer",
    responses=problem_responses(409),
)
def resume_transfer(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    """Changes nothing if the transfer is unfinished and not paused."""
    return TransferOut.of(control.resume(service, transfer_id, actor=actor))


@router.post(
    "/{transfer_id}/retry",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Retry the failed objects of a transfer",
    responses=problem_responses(409),
)
def retry_transfer(
    transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep, body: RetryRequest | None = None
) -> Submitted:
    """Starts a transfer that copies only the failed objects, and answers with its id.

    With a cause, its objects alone are tried again; the others stay failed, with the retry as well.
    """
    wanted = body or RetryRequest()
    found = control.retry(service, transfer_id, actor=actor, cause=wanted.cause, expected=wanted.expected)
    return Submitted(id=found.id)


@router.patch(
    "/{transfer_id}",
    summary="Change priority, limits, name or labels of a transfer",
    responses=problem_responses(400, 409),
)
def change_transfer(transfer_id: ChangeableIdDep, body: Change, service: ServiceDep, actor: ActorDep) -> TransferOut:
    """Priority and limits can be changed until the transfer has ended."""
    given = _fields_of(body)
    if "name" in given:
        given["name"] = given["name"] or ""  # null takes it away
    return TransferOut.of(control.change(service, transfer_id, actor=actor, **given))


@actions.post("/actions", summary="Act on many transfers in one request", responses=problem_responses(400, 409))
def act_on_transfers(body: Action, service: ServiceDep, actor: ActorDep, identity: IdentityDep) -> ActionResults:
    """An action that fails for one transfer is still done to the others. Only the client's own transfers are
    selected, unless its role is ``admin``."""
    which = body.filter
    if bool(body.ids) == (body.all or which != ALL_TRANSFERS):
        raise UsageError("Name the transfers: give ids, all, or filters such as states or prefix.").about("ids", "all")
    if (body.action == "set") != (body.change is not None):
        raise UsageError("Give 'change' with the action 'set', and with no other.").about("change", "action")
    verb: Verb = body.action
    ids = body.ids or control.select_transfers(service, verb, which)
    own = [one for one in ids if _is_own(service, identity, one)]
    named = ids if body.ids else own  # what is not the client's is not selected, and not counted
    check_count(len(named), body.expected)
    if body.dry_run:
        found = control.read_results(service, own[:MOST_SEEN])
        return ActionResults(count=len(named), results=[ActionResult.of(one) for one in found])
    change = {} if body.change is None else _fields_of(body.change)
    results = control.apply_to_each(service, verb, own, actor=actor, **change)
    refused = [] if body.ids is None else [one for one in ids if one not in own]
    foreign = [
        ActionResult(id=one, code="not_allowed", detail="The transfer is not the client's own.") for one in refused
    ]
    return ActionResults(count=len(named), results=[ActionResult.of(one) for one in results] + foreign)


def _is_own(service: Service, identity: Identity, transfer_id: str) -> bool:
    """As ``is_own``; the action itself reports a transfer that does not exist."""
    try:
        return is_own(service, identity, transfer_id)
    except NotFoundError:
        return True


def _fields_of(body: Adjustment) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.model_fields_set}
