"""Bodies of requests for other operations than copies, each with the function that makes its spec."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from seqferry.api.fields import WHOLE, create_body_model
from seqferry.api.schemas import DESCRIPTION, DescribedBody, KeysBody, Priority, SourcesBody, TransferRequest
from seqferry.model import operations
from seqferry.model.errors import UsageError
from seqferry.model.models import TransferSpec
from seqferry.model.option_fields import label
from seqferry.model.option_groups import Filters, Verify
from seqferry.planning import cleanup, removals
from seqferry.spec import check
from seqferry.spec.build import as_move, draft_spec
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    OneEndpoint,
    RecordedSpeed,
    SelectionOptions,
    Versions,
)

_NOT_OF_SPECS: Final = {"yes", "priority", *DESCRIPTION}

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


class CheckRequest(
    DescribedBody,
    SourcesBody,
    create_body_model(SelectionOptions, Filters, Versions, NameOptions, RecordedSpeed, Endpoints, AccessOptions),
):
    """Places to compare; as the options of ``seqferry check``."""

    verify: Verify = "checksum"
    one_way: Annotated[bool, Field(description="Objects that only the target has are no difference.")] = False
    new: Annotated[
        bool,
        Field(title=label("new"), description="Start another comparison although the same one is unfinished."),
    ] = False
    priority: Annotated[Priority, Field(description="Transfers of a higher priority are served first.")] = 0

    def recursive_arguments(self) -> dict[str, Any] | None:
        given = self.arguments()
        del given[check.ONE_WAY]
        return given if self.model_dump(include={"recursive"})["recursive"] else None


class CleanupRequest(DescribedBody, create_body_model(RecordedSpeed, OneEndpoint)):
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


class VerificationRequest(KeysBody, create_body_model(Filters, NameOptions, RecordedSpeed, OneEndpoint, AccessOptions)):
    """Objects on record to verify, and how; as the options of ``seqferry verify``."""

    content: Annotated[
        bool, Field(description="Read all bytes and compare them with the checksums in the receipt.")
    ] = False
    no_sign_request: Annotated[bool, Field(description="Read the target without credentials (public buckets).")] = False


def spec_of_move(body: MoveRequest) -> TransferSpec:
    """The spec of a move.

    Raises:
        UsageError: the request is not valid.
    """
    if not operations.find_operation(body.operation).is_plain or body.options:
        raise UsageError("A move has neither 'operation' nor 'options'; leave them out.").about("operation", "options")
    return as_move(draft_spec(**body.arguments()))


def spec_of_removal(body: RemovalRequest) -> TransferSpec:
    """The spec of a removal.

    Raises:
        UsageError: the request is not valid.
    """
    most = None if body.yes or body.expected is not None else removals.MAX_UNCONFIRMED
    return removals.build_remove_spec(most=most, **body.model_dump(exclude=_NOT_OF_SPECS))


def spec_of_check(body: CheckRequest) -> TransferSpec:
    """The spec of a comparison.

    Raises:
        UsageError: the request is not valid.
    """
    return check.build_check_spec(**body.arguments())


def spec_of_cleanup(body: CleanupRequest) -> TransferSpec:
    """The spec of a cleanup.

    Raises:
        UsageError: the request is not valid.
    """
    most = None if body.yes or body.expected is not None else removals.MAX_UNCONFIRMED
    return cleanup.build_cleanup_spec(most=most, **body.model_dump(exclude=_NOT_OF_SPECS))
