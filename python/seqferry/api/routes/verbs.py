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
from seqferry.api.fields import WHOLE, create_body_model
from seqferry.api.openapi import problem_responses
from seqferry.api.schemas import DESCRIPTION, DescribedBody, SourcesBody, Submitted, TransferRequest
from seqferry.model import operations
from seqferry.model.errors import UsageError
from seqferry.model.labels import Description
from seqferry.model.locations import S3Location
from seqferry.model.models import OPERATION_MOVE, TransferSpec
from seqferry.model.option_groups import Filters, Verify
from seqferry.planning import cleanup, removals
from seqferry.spec import check as check_spec
from seqferry.spec.build import draft_spec, with_operation
from seqferry.spec.option_groups import Endpoints, OneEndpoint
from seqferry.spec.validation import validate_spec

router = APIRouter(prefix="/api/v1", tags=["verbs"])

_TRANSFERS: Final = "/api/v1/transfers"
_NOT_OF_SPECS: Final = {"yes", *DESCRIPTION}
_GOES_ON: Final[dict[int | str, dict[str, Any]]] = problem_responses(400, 409, 502, 504) | {
    status.HTTP_200_OK: {"model": Submitted, "description": "The same one is unfinished and goes on"}
}
KeyHeader = Annotated[Annotated[str, Field(min_length=1, max_length=255)] | SkipJsonSchema[None], Header()]


Expected = Annotated[int, Field(ge=0, le=2**31), WHOLE] | None


class MoveRequest(TransferRequest):
    """Objects to move; as the options of ``seqferry mv``. It has no ``operation`` or ``options`` of its own."""


class RemovalRequest(DescribedBody, create_body_model(OneEndpoint, Filters)):
    """Objects to remove; as the options of ``seqferry rm``."""

    sources: Annotated[list[str], Field(min_length=1, max_length=1000, examples=[["s3://ours/run42/"]])]
    recursive: bool = False
    versions: Annotated[bool, Field(description="Remove all versions and delete markers, permanently.")] = False
    version_id: str | None = None
    rules: list[str] | None = Field(default=None, max_length=1000)
    raw: bool = False
    yes: Annotated[
        bool, Field(description="Remove more than 1,000 objects; otherwise nothing is removed where there are more.")
    ] = False
    expected: Annotated[
        Expected,
        Field(
            description="The number of objects that the client has seen: "
            "where it is another by now, nothing is removed."
        ),
    ] = None


class CheckRequest(DescribedBody, SourcesBody, create_body_model(Endpoints, Filters)):
    """Places to compare; as the options of ``seqferry check``."""

    source: Annotated[str, Field(examples=["s3://vendor/run42/"])]
    target: Annotated[str, Field(examples=["s3://ours/run42/"])]
    verify: Verify = "checksum"
    one_way: Annotated[bool, Field(description="Objects that only the target has are no difference.")] = False
    rules: list[str] | None = Field(default=None, max_length=1000)
    raw: bool = False
    recursive: Annotated[
        bool, Field(description="A name in `source` that no object has is a prefix: all below it is compared.")
    ] = False

    def recursive_arguments(self) -> dict[str, Any] | None:
        return self.model_dump(exclude={"recursive", "one_way", *DESCRIPTION}) if self.recursive else None


class CleanupRequest(DescribedBody, create_body_model(OneEndpoint)):
    """Open uploads to abort; as the options of ``seqferry cleanup``."""

    place: Annotated[str, Field(examples=["s3://ours/"])]
    older_than: str = cleanup.OLDER_THAN
    yes: Annotated[
        bool, Field(description="Abort more than 1,000 uploads; otherwise none is aborted where there are more.")
    ] = False
    expected: Annotated[
        Expected,
        Field(
            description="The number of uploads that the client has seen: where it is another by now, none is aborted."
        ),
    ] = None


@router.post("/moves", status_code=status.HTTP_202_ACCEPTED, summary="Move objects", responses=_GOES_ON)
async def start_move(
    body: MoveRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Copies, verifies, and then removes at the source what has arrived."""
    if not operations.find_operation(body.operation).is_plain or body.options:
        raise UsageError("A move has neither 'operation' nor 'options'; leave them out.").about("operation", "options")
    spec = await context.spec_of_sources(body, spec_of_move, key=idempotency_key, actor=actor)
    if isinstance(spec.source, S3Location) and spec.source.anonymous:
        raise UsageError("A move removes objects at the source, which 'no_sign_request' does not allow.").about(
            "no_sign_request"
        )
    return await _start(
        context, spec, actor, response, idempotency_key, body.description(), new=body.new, priority=body.priority
    )


@router.post("/removals", status_code=status.HTTP_202_ACCEPTED, summary="Remove objects", responses=_GOES_ON)
async def start_removal(
    body: RemovalRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Removes objects, each on record before it is removed."""
    most = None if body.yes or body.expected is not None else removals.MAX_UNCONFIRMED
    spec = context.spec_of(
        body, lambda one: removals.build_remove_spec(most=most, **one.model_dump(exclude=_NOT_OF_SPECS))
    )
    return await _start(context, spec, actor, response, idempotency_key, body.description())


@router.post("/checks", status_code=status.HTTP_202_ACCEPTED, summary="Compare two places", responses=_GOES_ON)
async def start_check(
    body: CheckRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Compares and changes nothing: identical objects end as skipped, all others as failed."""
    spec = await context.spec_of_sources(body, _check_spec, key=idempotency_key, actor=actor)
    return await _start(context, spec, actor, response, idempotency_key, body.description())


@router.post("/cleanups", status_code=status.HTTP_202_ACCEPTED, summary="Abort open uploads", responses=_GOES_ON)
async def start_cleanup(
    body: CleanupRequest, context: ContextDep, actor: ActorDep, response: Response, idempotency_key: KeyHeader = None
) -> Submitted:
    """Aborts multipart uploads that were never completed."""
    most = None if body.yes or body.expected is not None else removals.MAX_UNCONFIRMED
    spec = context.spec_of(
        body, lambda one: cleanup.build_cleanup_spec(most=most, **one.model_dump(exclude=_NOT_OF_SPECS))
    )
    return await _start(context, spec, actor, response, idempotency_key, body.description())


def spec_of_move(body: MoveRequest) -> TransferSpec:
    return validate_spec(with_operation(draft_spec(**body.arguments()), OPERATION_MOVE))


def _check_spec(body: CheckRequest) -> TransferSpec:
    return check_spec.build_check_spec(**body.model_dump(exclude={"recursive", *DESCRIPTION}))


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
