"""``/api/v1/shares``: shares of gateways, what waits in them, and how much of a folder is in S3."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ContextDep, ServiceDep
from seqferry.api.openapi import problem_responses
from seqferry.model.errors import StorageTimeoutError

if TYPE_CHECKING:
    from seqferry.service.shares import GatewayStatus, ShareStatus

router = APIRouter(prefix="/api/v1/shares", tags=["shares"])

_POLL_SECONDS: Final = 0.2


class FailingFileOut(BaseModel):
    path: str
    cause: str
    """With the next step."""
    attempts: int
    seconds: float
    """Since the first of them."""


class HeldMarkerOut(BaseModel):
    """A completion marker that waits for older files."""

    path: str
    waits_for: str
    cause: str | None
    """Failure of that file; null: it does not fail."""


class RenamedFolderOut(BaseModel):
    """A renamed folder whose files are copied to their new keys."""

    model_config = ConfigDict(populate_by_name=True)

    former: str = Field(alias="from")
    to: str
    """Empty: the folder was removed."""
    files: int
    """Found so far."""
    bytes: int
    waiting_files: int
    waiting_bytes: int
    removals: int
    """Old keys to be removed."""
    seconds: float


class WritingOut(BaseModel):
    """Files of a share that is written and their way to S3; names and meanings are those of `gateway_share` events and
    of the metrics."""

    # Gateways of an earlier version report less.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    dirty_files: int
    """Files, links and folders that S3 does not have as the share shows them."""
    dirty_bytes: int
    oldest_dirty_seconds: float | None
    """Since the last change of the oldest of them; null: nothing waits."""
    oldest_path: str | None = None
    uploading_files: int = 0
    failing_files: int
    failing: list[FailingFileOut] = []
    """Up to 5 of them."""
    held_markers: int = 0
    held: list[HeldMarkerOut] = []
    """Up to 5 of them."""
    renamed_folders: int = 0
    renames: list[RenamedFolderOut] = []
    """Up to 5 of them."""
    removals: int = 0
    """Objects to be removed."""
    conflicts: int
    ignored_files: int = 0
    """Files that stay on the gateway by their names."""
    unrecorded: int = 0
    """Ends of uploads that are not on record yet."""
    uploaded_files: int = 0
    uploaded_bytes: int = 0
    bytes_per_second: float = 0.0
    window_is_open: bool
    free_bytes: int | None = None
    failure: str | None = None
    """Cause, if writes are no longer acknowledged."""
    claimed_by: str | None = None
    """Cause, if nothing is uploaded since another gateway has claimed the prefix."""


class ShareOut(BaseModel):
    name: str
    source: str | None
    """Null before the first report of its gateway."""
    read_bytes: int
    fetched_bytes: int
    """Bytes that clients have read of objects, and those fetched from S3 for that, since the start."""
    writing: WritingOut | None
    """Null for a read-only share."""

    @classmethod
    def of(cls, one: ShareStatus) -> ShareOut:
        return cls(
            name=one.name,
            source=one.source,
            read_bytes=one.read_bytes,
            fetched_bytes=one.fetched_bytes,
            writing=None if one.writing is None else WritingOut.model_validate(one.writing),
        )


class GatewayOut(BaseModel):
    id: str
    """The `id` of the process in `GET /api/v1/workers`."""
    name: str
    host: str
    alive: bool
    """It has given a sign of life in the last 30 s. If not, its shares are shown as they were at `seen_at`."""
    draining: bool
    """It accepts no changes, and ends when all files are in S3."""
    since: datetime
    seen_at: datetime
    address: str | None
    """Host and port that it serves at; null for a mount."""
    directory: str | None
    """The folder of a mount that is written; null for a gateway."""
    shares: list[ShareOut]

    @classmethod
    def of(cls, one: GatewayStatus) -> GatewayOut:
        process, facts = one.status.process, one.status.activity.facts
        return cls(
            id=process.id,
            name=process.name,
            host=process.host,
            alive=one.status.alive,
            draining=one.is_draining,
            since=datetime.fromtimestamp(one.status.since, UTC),
            seen_at=datetime.fromtimestamp(one.status.seen_at, UTC),
            address=f"{facts['host']}:{facts['port']}" if "port" in facts else None,
            directory=facts.get("directory"),
            shares=[ShareOut.of(share) for share in one.shares],
        )


class Shares(BaseModel):
    gateways: list[GatewayOut]


class OldestOut(BaseModel):
    path: str
    age_seconds: float


class CountOut(BaseModel):
    files: int
    bytes: int
    is_cut: bool
    """There are more: 100,000 objects, or those of 10 s, are counted."""


class NameOut(BaseModel):
    name: str
    kind: Literal["file", "folder", "link"]
    size: int
    modified: datetime
    state: Literal["in_s3", "waiting", "uploading", "failing", "ignored"]
    waiting: int
    uploading: int
    failing: int
    ignored: int
    """Files that are so; of a folder all below it."""

    @classmethod
    def of(cls, one: dict[str, Any]) -> NameOut:
        return cls.model_validate({**one, "modified": datetime.fromtimestamp(one["modified"], UTC)})


class FilesOut(BaseModel):
    """Files of a folder and below it, or one file. Paths are those below the share."""

    path: str
    kind: Literal["file", "folder", "link"]
    in_s3: CountOut | None
    """Files that S3 has as the share shows them; null if they were not counted."""
    in_s3_error: str | None
    """Cause, if they could not be counted."""
    dirty_files: int
    """Files, links and folders that S3 does not have as the share shows them."""
    dirty_folders: int
    """The folders of them."""
    dirty_bytes: int
    oldest: OldestOut | None
    uploading_files: int
    failing_files: int
    failing: list[FailingFileOut]
    held: list[HeldMarkerOut]
    renames: list[RenamedFolderOut]
    """Up to 20 each."""
    removals: int
    ignored_files: int
    names: list[NameOut] | None
    """The first 200 names of a folder; null of a file, and if they cannot be listed now."""
    names_are_cut: bool
    """There are more names."""

    @classmethod
    def of(cls, path: str, found: dict[str, Any]) -> FilesOut:
        names = found.get("names")
        listed = None if names is None else [NameOut.of(one) for one in names]
        return cls.model_validate({**found, "path": path, "names": listed})


@router.get("", summary="Shares of all gateways")
def list_shares(service: ServiceDep) -> Shares:
    """As their gateways reported them last, at most 10 s ago. Gateways that run come first."""
    from seqferry.service import shares  # here, so that the start need not wait for it

    return Shares(gateways=[GatewayOut.of(one) for one in shares.read(service)])


@router.get(
    "/files",
    summary="How many files of a folder are in S3",
    responses=problem_responses(400, 403, 404, 409, 503, 504),
)
async def find_files(
    context: ContextDep,
    gateway: Annotated[str, Query(max_length=1024, description="`id` of the gateway.")],
    share: Annotated[str, Query(max_length=1024, description="`name` of the share.")],
    path: Annotated[str, Query(max_length=4096, description="Folder or file below the share.")] = "",
    count: Annotated[
        bool, Query(description="Count the files in S3 too: a LIST request for each 1,000, 100 at most.")
    ] = True,
) -> FilesOut:
    """Asks the gateway, which answers from its memory and, with `count`, from a listing of the folder in S3. Shows only
    what clients may read (`[server] read`)."""
    service = context.service
    from seqferry.service import share_answers, shares  # as above

    path = shares.clean_path(path)
    place = await run_in_threadpool(shares.find_place, service, gateway, share, path)
    context.settings.policy.check_browse(place)
    question = await run_in_threadpool(shares.ask, service, gateway, share, path, counts=count)
    try:
        deadline = time.monotonic() + share_answers.ANSWER_SECONDS
        while (found := await run_in_threadpool(shares.read_answer, service, question)) is None:
            if time.monotonic() > deadline:
                raise StorageTimeoutError(
                    f"The gateway of /{share} has not answered within {share_answers.ANSWER_SECONDS:g} seconds; see "
                    f"its log, or run on its machine: seqferry gateway status /{share}"
                )
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        await run_in_threadpool(shares.withdraw, service, question)
    return FilesOut.of(path, found)
