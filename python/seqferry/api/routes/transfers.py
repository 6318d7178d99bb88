"""``/api/v1/transfers``: start, list, follow and cancel transfers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Response, status
from pydantic import AwareDatetime, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ActorDep, ChangeableIdDep, ContextDep, ServiceDep
from seqferry.api.openapi import problem_responses
from seqferry.api.schemas import (
    Chain,
    EngineSampleOut,
    EngineSamples,
    FailureGroupOut,
    FailureGroups,
    ObjectOut,
    ObjectPage,
    SampleOut,
    Samples,
    Submitted,
    TransferNow,
    TransferOut,
    TransferPage,
    TransferRequest,
    cursor_text,
    is_time,
    seconds,
    spec_of_request,
)
from seqferry.api.streams import EventStream
from seqferry.db.feed import POSITION_PATTERN, Position
from seqferry.db.paging import (
    OBJECT_CURSOR,
    TRANSFER_CURSOR,
    Cursor,
    ObjectFilter,
    ObjectOrder,
    ObjectSort,
    TransferFilter,
)
from seqferry.model import prices
from seqferry.model.labels import MAX_LABELS
from seqferry.model.labels import parse_filter as wanted_labels
from seqferry.model.models import ObjectState, TransferState

router = APIRouter(prefix="/api/v1/transfers", tags=["transfers"])
feed = APIRouter(prefix="/api/v1", tags=["transfers"])

MAX_TEXT: Final = 1024
"""Characters of a filter: a key has no more."""

MAX_OFFSET: Final = 10**12
"""More objects than a transfer has."""

CURSOR: Final = "`next_cursor` or `previous_cursor` of another page, with the same filters and order."

# What is optional is described without null: in a query that would arrive as the text "null".
Text = Annotated[
    Annotated[str, Field(max_length=MAX_TEXT)] | SkipJsonSchema[None],
    Query(description="Part of a name; upper and lower case of ASCII are the same."),
]
Prefix = Annotated[
    Annotated[str, Field(max_length=MAX_TEXT)] | SkipJsonSchema[None], Query(description="Start of a name.")
]


Time = Annotated[
    Annotated[AwareDatetime, BeforeValidator(is_time)] | SkipJsonSchema[None],
    Query(description="RFC 3339, with its offset from UTC."),
]


@router.post(
    "",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Start a transfer",
    responses=problem_responses(400, 409, 502, 504)
    | {status.HTTP_200_OK: {"model": Submitted, "description": "The same transfer is unfinished and goes on"}},
)
async def submit_transfer(
    body: TransferRequest,
    context: ContextDep,
    actor: ActorDep,
    response: Response,
    idempotency_key: Annotated[
        Annotated[str, Field(min_length=1, max_length=255)] | SkipJsonSchema[None], Header()
    ] = None,
) -> Submitted:
    """Checks both buckets, records the transfer and answers immediately; the same Idempotency-Key gives the same id.

    When the same transfer, submitted with the same token, is unfinished, the answer is 200 and its id.
    """
    service = context.service
    asked = await context.spec_of_sources(body, spec_of_request, key=idempotency_key, actor=actor)
    spec = await context.resolve(asked)
    transfer_id = None
    if idempotency_key:
        transfer_id = await run_in_threadpool(service.find_submitted, spec, idempotency_key, actor=actor)
    if transfer_id is None:
        await context.checks.check(spec)
        submission = await run_in_threadpool(
            service.submit_or_resume,
            spec,
            actor=actor,
            idempotency_key=idempotency_key,
            new=body.new,
            priority=body.priority,
            description=body.description(),
        )
        transfer_id = submission.id
        if submission.goes_on:
            response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"{router.prefix}/{transfer_id}"
    return Submitted(id=transfer_id)


@router.get("", summary="Transfers, newest first", responses=problem_responses(400))
def list_transfers(
    service: ServiceDep,
    state: Annotated[list[TransferState], Query(max_length=20, description="Any of these.")] = [],  # noqa: B006
    text: Text = None,
    prefix: Prefix = None,
    person: Annotated[
        Annotated[str, Field(max_length=MAX_TEXT)] | SkipJsonSchema[None],
        Query(description="Part of the name of who started it, as `ada` or `http pipeline`."),
    ] = None,
    created_by: Annotated[
        Annotated[str, Field(max_length=MAX_TEXT)] | SkipJsonSchema[None],
        Query(description="Start of that name, as `ada` of `ada@host`."),
    ] = None,
    name: Text = None,
    label: Annotated[
        list[Annotated[str, Field(max_length=MAX_TEXT)]],
        Query(max_length=MAX_LABELS, description="`key=value`, or `key` for any value. All of these."),
    ] = [],  # noqa: B006
    created_after: Time = None,
    created_before: Time = None,
    cursor: Annotated[
        Annotated[str, Field(pattern=TRANSFER_CURSOR)] | SkipJsonSchema[None], Query(description=CURSOR)
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> TransferPage:
    """Transfers that match all given filters; ``text`` searches id, name, source and target.

    ``POST /api/v1/actions`` takes the same ones.
    """
    wanted = TransferFilter(
        states=tuple(state),
        text=text,
        prefix=prefix,
        person=person,
        created_by=created_by,
        name=name,
        labels=wanted_labels(label),
        since=seconds(created_after),
        until=seconds(created_before),
    )
    page = service.transfer_page(wanted, cursor=Cursor.parse(cursor, TRANSFER_CURSOR), limit=limit)
    return TransferPage(
        transfers=[TransferOut.of(one) for one in page.entries],
        next_cursor=cursor_text(page.next),
        previous_cursor=cursor_text(page.previous),
    )


@router.get("/{transfer_id}", summary="One transfer, now", responses=problem_responses(400))
def get_transfer(
    transfer_id: str,
    service: ServiceDep,
    price: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
) -> TransferNow:
    """Its state and totals; after its end also what its counted requests cost.

    `price` names a region of AWS whose list prices hold, whatever the storage is.
    """
    if price is not None:
        prices.read_shipped(price)
    found = service.status(transfer_id)
    return TransferNow.with_details(found, service.preflight(found.id), service.cost(found, price))


@router.get("/{transfer_id}/chain", summary="A transfer and its retries")
def get_chain(transfer_id: str, service: ServiceDep) -> Chain:
    """By the id of any of them."""
    return Chain.of(service.retry_chain(transfer_id))


@router.get("/{transfer_id}/objects", summary="List the objects of a transfer", responses=problem_responses(400))
def list_objects(
    transfer_id: str,
    service: ServiceDep,
    state: Annotated[ObjectState | SkipJsonSchema[None], Query()] = None,
    text: Text = None,
    prefix: Prefix = None,
    sort: Annotated[
        ObjectSort | SkipJsonSchema[None],
        Query(description="`time`: when they ended. Without it `key` with a prefix, else `found`."),
    ] = None,
    order: Annotated[Literal["asc", "desc"], Query()] = "asc",
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Objects to skip, without a cursor.")] = 0,
    cursor: Annotated[
        Annotated[str, Field(pattern=OBJECT_CURSOR)] | SkipJsonSchema[None], Query(description=CURSOR)
    ] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> ObjectPage:
    """In the order in which they were found, or with ``prefix`` in the order of their keys at the source.

    By size and time up to 100,000 objects are sorted: all of them, or those with ``state=failed``. An offset into a
    search for text, or into a state in the order of keys, has the same limit; 400 says so.

    A search looks at a bounded number of objects at a time: a page may hold fewer than ``limit``, or none, and still
    have a ``next_cursor``. Go on until that is null.
    """
    wanted = ObjectFilter(state=state, text=text, prefix=prefix)
    page = service.object_page(
        transfer_id,
        wanted,
        cursor=Cursor.parse(cursor, OBJECT_CURSOR),
        limit=limit,
        order=ObjectOrder(sort, order == "desc", offset),
    )
    return ObjectPage(
        objects=[ObjectOut.of(one) for one in page.entries],
        next_cursor=cursor_text(page.next),
        previous_cursor=cursor_text(page.previous),
    )


@router.get("/{transfer_id}/failures", summary="Failed objects by cause")
def list_failures(
    transfer_id: str,
    service: ServiceDep,
    keys: Annotated[int, Query(ge=0, le=100, description="Keys of each cause at most.")] = 20,
) -> FailureGroups:
    return FailureGroups(causes=[FailureGroupOut.of(one) for one in service.failures(transfer_id, keys=keys)])


@router.get("/{transfer_id}/samples", summary="Throughput over time, for charts")
def list_samples(
    transfer_id: str,
    service: ServiceDep,
    since: Time = None,
    until: Time = None,
    points: Annotated[int, Query(ge=1, le=2000, description="Intervals at most.")] = 300,
) -> Samples:
    """Equal intervals without gaps, oldest first. Counts are what all workers did within each."""
    found = service.samples(transfer_id, since=seconds(since), until=seconds(until), points=points)
    return Samples(samples=[SampleOut.of(one) for one in found])


@router.get(
    "/{transfer_id}/events",
    summary="Events as they happen",
    response_class=EventStream,
    responses={status.HTTP_200_OK: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    transfer_id: str,
    context: ContextDep,
    last_event_id: Annotated[
        Annotated[str, Field(pattern="^[0-9]{1,9}$")] | SkipJsonSchema[None],
        Header(description="The `id` of the last event that was received: the stream goes on after it."),
    ] = None,
) -> EventStream:
    """Server-sent events: each event of the transfer once, with its number as ``id``; then as they happen.

    Events named ``progress`` hold the transfer as it is now, at most one each second, and have no ``id``. The stream
    does not end with the transfer. A comment is sent each 15 seconds when there is nothing else.
    """
    found = await run_in_threadpool(context.service.status, transfer_id)
    return EventStream(context.hub.frames(found.id, int(last_event_id or 0)))


@feed.get("/samples", summary="Requests of the workers over time, for charts")
def list_engine_samples(
    service: ServiceDep,
    worker: Annotated[
        Annotated[str, Field(max_length=256)] | SkipJsonSchema[None],
        Query(description="Only of this worker, by the name in its records; all of them together without it."),
    ] = None,
    since: Time = None,
    until: Time = None,
    points: Annotated[int, Query(ge=1, le=2000, description="Intervals at most.")] = 300,
) -> EngineSamples:
    """Equal intervals without gaps, oldest first: all requests of the engines, whatever transfer they were for."""
    found = service.engine_samples(worker, since=seconds(since), until=seconds(until), points=points)
    return EngineSamples(samples=[EngineSampleOut.of(one) for one in found])


@feed.get(
    "/events",
    summary="Events of all transfers as they happen",
    response_class=EventStream,
    responses=problem_responses(404)
    | {status.HTTP_200_OK: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_all_events(
    context: ContextDep,
    transfer: Annotated[
        list[Annotated[str, Field(max_length=64)]],
        Query(max_length=100, description="Only of these transfers. Give the same ones when the stream goes on."),
    ] = [],  # noqa: B006
    progress: Annotated[
        bool, Query(description="Also events named `progress`: the newest 100 unfinished transfers as they change.")
    ] = False,
    last_event_id: Annotated[
        Annotated[str, Field(pattern=POSITION_PATTERN)] | SkipJsonSchema[None],
        Header(description="The `id` of the last event that was received; `0` for all that there have been."),
    ] = None,
) -> EventStream:
    """Server-sent events of all transfers, those of each in their order, each with its ``transfer_id``.

    With ``progress`` each unfinished transfer is sent as ``GET /api/v1/transfers`` shows it: immediately, then after a
    change at most once a second, and once more when it has ended. These have no ``id``.

    Without ``Last-Event-ID`` the stream begins now, with an event named ``position`` whose ``id`` can be resumed from.
    A comment is sent each 15 seconds when there is nothing else.
    """
    wanted: frozenset[str] | None = None
    if transfer:
        wanted = frozenset([(await run_in_threadpool(context.service.status, one)).id for one in transfer])
    after = None if last_event_id is None else Position.parse(last_event_id)
    return EventStream(context.hub.feed.frames(wanted, after, progress=progress))


@router.post(
    "/{transfer_id}/cancel",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Stop a transfer",
    responses=problem_responses(409),
)
def cancel_transfer(transfer_id: ChangeableIdDep, service: ServiceDep, actor: ActorDep) -> TransferOut:
    return TransferOut.of(service.cancel(transfer_id, actor=actor))
