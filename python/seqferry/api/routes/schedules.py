"""``/api/v1/schedules``: transfers, moves, checks, verifications and cleanups at the times of a cron expression."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, status
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, Context, ContextDep, IdentityDep, ServiceDep, full_id, is_client, is_own
from seqferry.api.openapi import problem_responses
from seqferry.api.problems import shorten
from seqferry.api.schemas import DescribedBody, Priority, TransferRequest, spec_of_request
from seqferry.api.verb_bodies import (
    CheckRequest,
    CleanupRequest,
    MoveRequest,
    VerificationRequest,
    spec_of_check,
    spec_of_cleanup,
    spec_of_move,
)
from seqferry.model.errors import PolicyError, UsageError
from seqferry.model.models import Event, TransferSpec
from seqferry.service import authority, control, schedules
from seqferry.service.cron import MAX_TEXT, UTC_ZONE
from seqferry.service.schedule_runs import RunOutcome, ScheduleRun
from seqferry.service.schedules import Schedule, State
from seqferry.service.service import Service
from seqferry.settings.tokens import Identity

router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])

_NAME: Final = f"^{schedules.NAME}$"

CronText = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, examples=["0 2 * * *"])]
ZoneText = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, examples=["Europe/Berlin"])]
NameDep = Annotated[str, Path(max_length=63, pattern=_NAME)]


class RepeatedCleanup(CleanupRequest):
    """As for ``POST /api/v1/cleanups``."""

    priority: Priority = 0


class RepeatedVerification(DescribedBody, VerificationRequest):
    """As for ``POST /api/v1/transfers/{id}/verify``, with the id of that transfer."""

    transfer_id: Annotated[str, Field(description="The whole id of the transfer that is verified at each run.")]
    priority: Priority = 0


Repeated = TransferRequest | MoveRequest | CheckRequest | RepeatedVerification | RepeatedCleanup


class ScheduleRequest(BaseModel):
    """The times, and exactly one of ``transfer``, ``move``, ``check``, ``verification`` and ``cleanup``.

    Each is the body of that request, without ``new`` and ``name``: what begins has the schedule's name.
    """

    model_config = ConfigDict(extra="forbid")

    cron: CronText
    """Minute, hour, day of the month, month, day of the week; a field of seconds may come first."""
    timezone: ZoneText = UTC_ZONE
    name: Annotated[str | None, Field(max_length=63, pattern=_NAME, examples=["nightly"])] = None
    """Null: one is made up."""
    transfer: TransferRequest | None = None
    move: MoveRequest | None = None
    check: CheckRequest | None = None
    verification: RepeatedVerification | None = None
    cleanup: RepeatedCleanup | None = None

    def repeated(self) -> tuple[str, Repeated]:
        """The field that is given, and its value.

        Raises:
            UsageError: none or several are given.
        """
        every: dict[str, Repeated | None] = {
            "transfer": self.transfer, "move": self.move, "check": self.check, "verification": self.verification,
            "cleanup": self.cleanup,
        }  # fmt: skip
        found = [(name, one) for name, one in every.items() if one is not None]
        if len(found) != 1:
            raise UsageError(
                "A schedule starts one thing: give one of 'transfer', 'move', 'check', 'verification' and 'cleanup'."
            ).about(*(name for name, _ in found[1:]))
        return found[0]


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
    list_sha256: str | None
    """Of the list of objects that the run has read, SHA-256 in hexadecimal; null if it names none."""

    @classmethod
    def of(cls, run: ScheduleRun) -> ScheduleRunOut:
        return cls(
            due_at=_time(run.due_at),
            at=_time(run.at),
            outcome=run.outcome,
            transfer_id=run.transfer_id,
            message=None if run.message is None else shorten(run.message),
            list_sha256=run.list_sha256,
        )


class ScheduleOut(BaseModel):
    name: str
    cron: str
    timezone: str
    state: State
    operation: str
    noun: str
    """The operation as a text: `copy` of a `transfer`."""
    source: str
    target: str
    files_from: str | None
    """The list of objects that each run reads; null if there is none."""
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
            noun=one.spec.kind.noun,
            source=one.spec.source.uri,
            target=one.spec.target.uri,
            files_from=one.spec.files_from,
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
    responses=problem_responses(400, 404, 409, 502, 504),
)
async def add_schedule(
    body: ScheduleRequest, context: ContextDep, actor: ActorDep, identity: IdentityDep
) -> ScheduleOut:
    """Looks at both buckets first. Places and identities of its transfers are resolved now, as for a transfer."""
    field, wanted = body.repeated()
    if wanted.name is not None or getattr(wanted, "new", False):
        raise UsageError(f"Transfers of a schedule have its name; leave 'name' and 'new' out of '{field}'.").about(
            field
        )
    spec = await context.resolve(await _spec(wanted, context, actor, identity))
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


async def _spec(wanted: Repeated, context: Context, actor: str, identity: Identity) -> TransferSpec:
    match wanted:
        case RepeatedVerification():
            return await run_in_threadpool(_spec_of_verification, wanted, context, actor, identity)
        case MoveRequest():
            return await context.spec_of_sources(wanted, spec_of_move)
        case TransferRequest():
            return await context.spec_of_sources(wanted, spec_of_request)
        case CheckRequest():
            return await context.spec_of_sources(wanted, spec_of_check)
        case RepeatedCleanup():
            return context.spec_of(wanted, spec_of_cleanup)


def _spec_of_verification(
    wanted: RepeatedVerification, context: Context, actor: str, identity: Identity
) -> TransferSpec:
    service = context.service
    transfer_id = full_id(wanted.transfer_id)
    if not is_own(service, identity, transfer_id):
        raise PolicyError(
            f"Transfer {transfer_id} was not started with the token '{identity.name}', and its role "
            f"'{identity.role}' verifies its own transfers only."
        ).about("verification")
    given = wanted.arguments()
    del given["transfer_id"]
    spec = control.prepare_verification(service, service.status(transfer_id), actor=actor, **given)
    # Its runs are compared with the whole policy, as those of any schedule of a client.
    authority.check_policy(service.settings, spec)
    return spec


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
