"""``/api/v1/schedules``: transfers that begin by themselves at the times of a cron expression."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, status
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, ContextDep, IdentityDep, ServiceDep, is_client
from seqferry.api.openapi import problem_responses
from seqferry.api.problems import shorten
from seqferry.api.schemas import TransferRequest, spec_of_request
from seqferry.model.errors import PolicyError, UsageError
from seqferry.model.models import Event
from seqferry.service import schedules
from seqferry.service.cron import MAX_TEXT, UTC_ZONE
from seqferry.service.schedules import RunOutcome, Schedule, ScheduleRun, State
from seqferry.service.service import Service
from seqferry.settings.tokens import Identity

router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])

_NAME: Final = f"^{schedules.NAME}$"

CronText = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, examples=["0 2 * * *"])]
ZoneText = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, examples=["Europe/Berlin"])]
NameDep = Annotated[str, Path(max_length=63, pattern=_NAME)]


class ScheduleRequest(BaseModel):
    """The command that begins, and its times."""

    model_config = ConfigDict(extra="forbid")

    cron: CronText
    """Minute, hour, day of the month, month, day of the week; a field of seconds may come first."""
    timezone: ZoneText = UTC_ZONE
    name: Annotated[str | None, Field(max_length=63, pattern=_NAME, examples=["nightly"])] = None
    """Null: one is made up."""
    transfer: TransferRequest
    """As for ``POST /api/v1/transfers``, without ``new`` and ``name``: its transfers have the schedule's name."""


class ScheduleChange(BaseModel):
    """Changes; a field that is left out stays."""

    model_config = ConfigDict(extra="forbid")

    cron: CronText | None = None
    timezone: ZoneText | None = None


class ScheduleRunOut(BaseModel):
    due_at: datetime
    at: datetime
    """Time of its start."""
    outcome: RunOutcome
    """``joined``: the unfinished transfer of an earlier run goes on instead. ``superseded``: a later run was due.

    ``waiting``: the transfer waits for another one that writes to the same keys.
    """
    transfer_id: str | None
    message: str | None

    @classmethod
    def of(cls, run: ScheduleRun) -> ScheduleRunOut:
        return cls(
            due_at=_time(run.due_at),
            at=_time(run.at),
            outcome=run.outcome,
            transfer_id=run.transfer_id,
            message=None if run.message is None else shorten(run.message),
        )


class ScheduleOut(BaseModel):
    name: str
    cron: str
    timezone: str
    state: State
    operation: str
    source: str
    target: str
    priority: int
    labels: dict[str, str]
    """Of its transfers."""
    created_at: datetime
    created_by: str
    next_at: datetime | None
    """Null while it is paused."""
    runs: list[ScheduleRunOut]
    """The latest, newest first; in the list of all schedules only the last."""

    @classmethod
    def of(cls, one: Schedule) -> ScheduleOut:
        return cls(
            name=one.name,
            cron=one.cron.expression,
            timezone=one.cron.timezone,
            state=one.state,
            operation=one.spec.operation,
            source=one.spec.source.uri,
            target=one.spec.target.uri,
            priority=one.priority,
            labels=dict(one.labels),
            created_at=_time(one.created_at),
            created_by=one.created_by,
            next_at=None if one.next_at is None else _time(one.next_at),
            runs=[ScheduleRunOut.of(run) for run in one.runs],
        )


class Schedules(BaseModel):
    schedules: list[ScheduleOut]
    """By name."""


class ScheduleEventOut(BaseModel):
    number: int
    at: datetime
    kind: str
    """``added``, ``edited``, ``paused``, ``resumed``, ``run`` or ``removed``."""
    actor: str
    data: dict[str, Any]
    hash: str

    @classmethod
    def of(cls, event: Event) -> ScheduleEventOut:
        return cls(
            number=event.number,
            at=_time(event.at),
            kind=event.kind,
            actor=event.actor,
            data=event.data,
            hash=event.hash,
        )


class ScheduleHistory(BaseModel):
    events: list[ScheduleEventOut]


def _changeable(name: NameDep, service: ServiceDep, identity: IdentityDep) -> str:
    """A client of the role ``submit`` may change its own schedules, one of ``admin`` all.

    Raises:
        NotFoundError: no schedule has this name.
        PolicyError: another client, or a person at the command line, has added it.
    """
    if not _is_own(service, identity, name):
        raise PolicyError(
            f"The schedule '{name}' was not added with the token '{identity.name}', and its role '{identity.role}' "
            "allows changes to its own schedules only."
        )
    return name


def _is_own(service: Service, identity: Identity, name: str) -> bool:
    found = schedules.find_schedule(service, name)
    return identity.may("admin") or is_client(identity, found.created_by)


ChangeableDep = Annotated[str, Depends(_changeable)]


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Add a schedule",
    responses=problem_responses(400, 409, 502, 504),
)
async def add_schedule(body: ScheduleRequest, context: ContextDep, actor: ActorDep) -> ScheduleOut:
    """Looks at both buckets first. Places and identities of its transfers are resolved now, as for a transfer."""
    wanted = body.transfer
    if wanted.new or wanted.name is not None:
        raise UsageError("Transfers of a schedule have its name; leave 'name' and 'new' out of 'transfer'.").about(
            "transfer"
        )
    spec = await context.resolve(await context.spec_of_sources(wanted, spec_of_request))
    await context.checks.check(spec)
    made = await run_in_threadpool(
        schedules.add,
        context.service,
        body.cron,
        spec,
        actor=actor,
        name=body.name,
        timezone=body.timezone,
        priority=wanted.priority,
        labels=wanted.labels,
    )
    return ScheduleOut.of(made)


@router.get("", summary="All schedules")
def list_schedules(service: ServiceDep) -> Schedules:
    return Schedules(schedules=[ScheduleOut.of(one) for one in schedules.list_schedules(service)])


@router.get("/{name}", summary="One schedule with its latest runs")
def get_schedule(name: NameDep, service: ServiceDep) -> ScheduleOut:
    return ScheduleOut.of(schedules.find_schedule(service, name))


@router.get("/{name}/history", summary="What was done to it by whom")
def get_schedule_history(name: NameDep, service: ServiceDep) -> ScheduleHistory:
    """Of all schedules that had this name, those among them that were removed."""
    return ScheduleHistory(events=[ScheduleEventOut.of(event) for event in schedules.history(service, name)])


@router.patch("/{name}", summary="Change when it fires", responses=problem_responses(400))
def edit_schedule(name: ChangeableDep, body: ScheduleChange, service: ServiceDep, actor: ActorDep) -> ScheduleOut:
    """Times before the change are not caught up."""
    edited = schedules.edit(service, name, actor=actor, expression=body.cron, timezone=body.timezone)
    return ScheduleOut.of(edited)


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, summary="Remove a schedule")
def remove_schedule(name: ChangeableDep, service: ServiceDep, actor: ActorDep) -> None:
    """Its transfers and its history stay."""
    schedules.remove(service, name, actor=actor)


@router.post("/{name}/pause", summary="Have it not fire until it is resumed")
def pause_schedule(name: ChangeableDep, service: ServiceDep, actor: ActorDep) -> ScheduleOut:
    return ScheduleOut.of(schedules.pause(service, name, actor=actor))


@router.post("/{name}/resume", summary="Have a paused one fire again")
def resume_schedule(name: ChangeableDep, service: ServiceDep, actor: ActorDep) -> ScheduleOut:
    """Runs that it missed meanwhile are not caught up."""
    return ScheduleOut.of(schedules.resume(service, name, actor=actor))


@router.post(
    "/{name}/run",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Submit its transfer now",
    responses=problem_responses(409),
)
def run_schedule(name: ChangeableDep, service: ServiceDep, actor: ActorDep) -> ScheduleRunOut:
    """The outcome is ``failed`` with its message where no transfer could be submitted."""
    return ScheduleRunOut.of(schedules.run_now(service, name, actor=actor))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
