"""Bodies of requests and answers of ``/api/v1``. Times are RFC 3339 in UTC, sizes are bytes."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, computed_field

from seqferry.api.fields import WHOLE, create_body_model
from seqferry.api.problems import shorten
from seqferry.db.paging import Cursor
from seqferry.db.samples import Counts, EngineCounts, Point
from seqferry.model import operations
from seqferry.model.errors import UsageError
from seqferry.model.labels import MAX_LABELS, MAX_NAME_LENGTH, Description, describe
from seqferry.model.locations import S3Location
from seqferry.model.messages import events, recipients, steps
from seqferry.model.messages.recipients import Needs
from seqferry.model.models import (
    MAX_PRIORITY,
    DataPath,
    FailureGroup,
    ObjectRecord,
    ObjectState,
    Status,
    TransferSpec,
    TransferState,
)
from seqferry.model.option_fields import label
from seqferry.model.progress import chain_totals
from seqferry.planning.unpacking import build_operation_spec
from seqferry.proof.costs import CountedCost
from seqferry.settings.policy import Policy
from seqferry.spec import properties
from seqferry.spec.option_groups import OF_REQUESTS
from seqferry.spec.validation import data_path

Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY), WHOLE]

DESCRIPTION: Final = {"name", "labels"}
"""Fields of ``DescribedBody``, which are no arguments of a spec."""

MAX_LISTED: Final = 1000
"""Rows of a list in a request: its body holds at most 10,000 values. A longer list goes by a manifest in S3."""


class ListedKey(BaseModel):
    """One object of a list."""

    model_config = ConfigDict(extra="forbid")

    key: str
    """Below the source."""
    version_id: str = ""
    """Empty: the current one."""
    target_key: str = ""
    """Below the target. Empty: the name stays."""


_NO_ARGUMENTS: Final = {"new", "priority", "operation", "options", "objects", "recursive", *DESCRIPTION}
"""Fields of bodies that are no arguments of a spec, or that become others."""


class KeysBody(BaseModel):
    """A body that may name objects one by one."""

    keys: Annotated[
        list[str] | None,
        Field(
            description="Only these objects, named below the source; for ``unpack`` members or folders of the archive, "
            "for a verification below its target."
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Those of the function that builds the spec."""
        return self.model_dump(exclude=_NO_ARGUMENTS)


class SourcesBody(KeysBody):
    """A body with a source and a target: its sources may be names of prefixes (``recursive``), or a list of objects."""

    source: Annotated[
        str | Annotated[list[str], Field(min_length=1, max_length=MAX_LISTED)],
        Field(examples=["s3://vendor/run42/"], description="Several sources, all in one bucket, go below one target."),
    ]
    target: Annotated[str, Field(examples=["s3://ours/run42/"])]
    objects: Annotated[
        list[ListedKey] | None,
        Field(
            max_length=MAX_LISTED,
            description="The same with versions and names at the target, as the rows of a CSV list; "
            "in place of ``keys``.",
        ),
    ] = None

    _takes_folders: bool = PrivateAttr(default=False)

    @abstractmethod
    def recursive_arguments(self) -> dict[str, Any] | None:
        """The arguments of ``draft_spec`` that sources are looked up with; None when none is to be."""

    def take_folders(self, policy: Policy) -> None:
        """Accept a folder of the server as source or target, where the policy has any for clients.

        Raises:
            PolicyError: it is a folder that clients may not use.
            UsageError: its path is not absolute.
        """
        if policy.names_folders:
            policy.check_paths(self.source, self.target)
            self._takes_folders = True

    def arguments(self) -> dict[str, Any]:
        given = super().arguments()
        if self._takes_folders:
            # A link may lead out of what clients may read.
            given |= {"allow_local": True, "symlinks": "skip"}
        if self.objects is not None:
            if self.keys is not None:
                raise UsageError("'keys' and 'objects' name the same thing; give one of them.").about("objects")
            given |= {
                "keys": [one.key for one in self.objects],
                "versions": [one.version_id for one in self.objects],
                "targets": [one.target_key for one in self.objects],
            }
        return given


class DescribedBody(BaseModel):
    """A body of a submission with the name and the labels of its transfer."""

    name: Annotated[
        str | None,
        Field(
            max_length=MAX_NAME_LENGTH,
            examples=["Run 42"],
            description="A name for lists and notices. Submissions that differ in it alone are the same.",
        ),
    ] = None
    labels: Annotated[
        dict[str, str],
        Field(
            max_length=MAX_LABELS,
            examples=[{"project": "X"}],
            description="Labels for lists and filters; keys of a-z, 0-9, dot, hyphen, underscore and slash.",
        ),
    ] = {}

    def description(self) -> Description:
        """Name and labels; a service checks them."""
        return describe(self.name, self.labels)


class TransferRequest(DescribedBody, SourcesBody, create_body_model(*OF_REQUESTS)):
    """Objects to copy, and options; as the options of ``seqferry cp``."""

    operation: Annotated[
        Literal["transfer", "pack", "unpack"],
        Field(
            description="``pack``: all below the source becomes one tar, whose key is the target.\n\n"
            "``unpack``: the source is an archive, whose members are unpacked below the target."
        ),
    ] = "transfer"
    options: dict[str, Any] = Field(
        default={},
        description='Of the operation: for ``unpack`` those of ``seqferry unpack``, as ``{"links": "skip"}``.\n\n'
        "For ``pack``: ``split`` (bytes of a shard) and ``no_index``.",
    )
    inventory: str | None = Field(
        default=None,
        examples=["s3://inventories/vendor/daily/2026-11-23T01-00Z/manifest.json"],
        description="The manifest of an S3 Inventory (CSV or Parquet) that lists the source.",
    )
    preflight: Annotated[bool, Field(description="Check the first objects before the first one is copied.")] = True
    new: Annotated[
        bool,
        Field(
            title=label("new"),
            description="Start another transfer although the same one is unfinished; "
            "it waits until that one has ended.",
        ),
    ] = False
    priority: Annotated[Priority, Field(description="Transfers of a higher priority are served first.")] = 0

    def recursive_arguments(self) -> dict[str, Any] | None:
        is_asked = (
            operations.find_operation(self.operation).is_plain and self.model_dump(include={"recursive"})["recursive"]
        )
        return self.arguments() if is_asked else None


def spec_of_request(body: TransferRequest) -> TransferSpec:
    """The spec that a request asks for.

    Raises:
        UsageError: it is not valid.
    """
    return build_operation_spec(body.operation, body.options, **body.arguments())


class Submitted(BaseModel):
    id: str


class TotalsOut(BaseModel):
    objects: int
    bytes: int
    done: int
    skipped: int
    failed: int
    cancelled: int
    bytes_done: int


class ActiveOut(BaseModel):
    key: str
    size: int
    bytes_done: int
    seconds: float


class LiveOut(BaseModel):
    workers: int
    bytes_per_second: float
    in_flight: int
    requests: int
    retries: int
    throttled: int
    slowest: list[ActiveOut]


class QueueOut(BaseModel):
    """Position of a transfer in the queue, and why it waits."""

    reason: Literal["turn", "overlap", "worker"]
    """It waits for its ``turn``; an earlier one writes to the same keys (``overlap``); no ``worker`` may do it."""
    ahead: int | None
    """Transfers before it in the queue; null if it waits for another reason."""
    blocked_by: str | None
    """The transfer that writes to the same keys."""

    @classmethod
    def of(cls, status: Status) -> QueueOut | None:
        if status.ended or status.live.workers or status.state == "paused":
            return None
        if status.blocked_by is not None:
            return cls(reason="overlap", ahead=None, blocked_by=status.blocked_by)
        if status.waits_for is not None:
            return cls(reason="worker", ahead=None, blocked_by=None)
        return cls(reason="turn", ahead=status.ahead, blocked_by=None) if status.state == "queued" else None


class TransferOut(BaseModel):
    id: str
    name: str | None
    labels: dict[str, str]
    state: TransferState
    operation: str
    noun: str
    """The operation as a text: `copy` of a `transfer`."""
    source: str
    target: str
    way: DataPath
    options: dict[str, Any]
    planned: bool
    totals: TotalsOut
    live: LiveOut
    created_at: datetime
    created_by: str
    started_at: datetime | None
    ended_at: datetime | None
    error_code: str | None
    error_message: str | None
    error_text: str | None
    """`error_message` for readers of a page: what to do there, and options by the labels of its form."""
    queue: QueueOut | None
    """Null unless it waits to begin, or to go on."""
    waits_for: str | None
    """The worker that the transfer needs if no running worker can do it, for example ``a worker with profile lab``."""
    receipt_digest: str | None
    """Of the receipt, SHA-256 in hexadecimal, once it has ended."""
    pruned_at: datetime | None
    """Since then the list of its objects is gone from the records, and the digest alone covers it."""
    retry_of: str | None
    """The transfer whose failed objects it copies."""
    retried_by: str | None
    """The latest transfer that copies what has failed of it."""
    next_step: Literal["retry"] | None
    """The act (`POST .../retry`) that brings over what is left of it; null when nothing is, or it was done."""
    priority: int
    max_requests: int | None
    """In each process that works at it; null: as the process was started."""
    max_bandwidth: str | None
    """The same for bytes per second, or a timetable."""
    tpslimit: int | None
    """The same for requests started per second."""

    @classmethod
    def of(cls, status: Status) -> TransferOut:
        return cls(
            id=status.id,
            name=status.description.name,
            labels=dict(status.description.labels),
            state=status.state,
            operation=status.spec.operation,
            noun=status.spec.kind.noun,
            source=status.spec.source.uri,
            target=status.spec.target.uri,
            way=data_path(status.spec),
            options=_options(status.spec),
            planned=status.planned,
            totals=TotalsOut(**asdict(status.totals)),
            live=LiveOut(**asdict(status.live)),
            created_at=_required_time(status.created_at),
            created_by=status.created_by,
            started_at=_time(status.started_at),
            ended_at=_time(status.ended_at),
            error_code=status.error_code,
            error_message=_message(status.error_message),
            error_text=_page_text(status.error_message),
            queue=QueueOut.of(status),
            waits_for=status.waits_for,
            receipt_digest=status.receipt_digest,
            pruned_at=_time(status.pruned_at),
            retry_of=status.spec.retry_of,
            retried_by=status.retried_by,
            next_step=status.next_step,
            **asdict(status.adjustment),
        )


class PreflightCause(BaseModel):
    """Objects that would fail alike, with some of their keys."""

    error_code: str
    operation: str
    message: str
    """Of the first of them."""
    advice: str | None
    """The next step; null if the message contains it."""
    count: int
    bytes: int
    keys: list[str]
    """The first of them."""

    @computed_field(description="The message without its next step, for readers of a page.")
    @property
    def text(self) -> str:
        return steps.PAGE.with_labels(steps.split_next_step(self.message)[0])

    @computed_field(description="The one next step, for readers of a page.")
    @property
    def next_step(self) -> str | None:
        step = steps.split_next_step(self.advice or self.message)[1]
        return self.advice if step is None else steps.PAGE.step(step)


class PreflightOut(BaseModel):
    """Errors that the check before the first object has found."""

    objects: int
    """Objects that were checked in the order of the listing."""
    bytes: int
    whole: bool
    """These are all objects of the transfer."""
    looked_up: int | None
    """Of these, those that were checked with a request of their own."""
    objects_failed: int
    """Of these, that would fail."""
    stopped: bool
    """Nothing could arrive, and the transfer was ended before it moved anything."""
    causes: list[PreflightCause]


class CostOut(BaseModel):
    """US dollars at list prices of AWS; those of requests at most: all but downloads are priced as writes."""

    requests_counted: int
    """While it worked, without listings and without processes that were killed."""
    region: str
    """Region of AWS, by whose prices this is."""
    requests: float
    egress: float | None
    """Of all bytes to the internet; null where they do not leave AWS."""
    month: float | None
    """Of the storage of all bytes for a month; null where they do not arrive in AWS."""
    datasync_basic: float
    """Price of the same bytes by DataSync, in its Basic mode."""
    datasync_enhanced: float


class TransferNow(TransferOut):
    preflight: PreflightOut | None
    """Null while the check has found no error."""
    cost: CostOut | None
    """Null before its end, and where the storage has no prices: `price` names a region whose prices hold."""
    option_labels: dict[str, str]
    """Labels of its `options` by their names."""

    @classmethod
    def with_details(cls, status: Status, found: dict[str, Any] | None, cost: CountedCost | None) -> TransferNow:
        return cls(
            **TransferOut.of(status).model_dump(),
            option_labels={name: label(name) for name in _options(status.spec)},
            preflight=None if found is None else PreflightOut(**found),
            cost=None if cost is None else CostOut(**cost.facts()),
        )


class Chain(BaseModel):
    """A transfer with those that retry it, as one thing."""

    transfers: list[TransferOut]
    """The first one first, the latest last."""
    latest: str
    state: TransferState
    """Of the latest."""
    totals: TotalsOut
    """Sums of all that has arrived, with what the latest has left."""

    @classmethod
    def of(cls, chain: Sequence[Status]) -> Chain:
        return cls(
            transfers=[TransferOut.of(one) for one in chain],
            latest=chain[-1].id,
            state=chain[-1].state,
            totals=TotalsOut(**asdict(chain_totals(chain))),
        )


class TransferPage(BaseModel):
    transfers: list[TransferOut]
    next_cursor: str | None
    """Give it as ``cursor`` for the next page, of older transfers; null at the end."""
    previous_cursor: str | None
    """Give it as ``cursor`` for the page before; null on the first page."""


class ObjectOut(BaseModel):
    source_key: str
    target_key: str
    size: int
    etag: str
    version_id: str | None
    state: ObjectState
    attempts: int
    retries: int
    method: str | None
    started_at: datetime | None
    ended_at: datetime | None
    target_etag: str | None
    target_version_id: str | None
    checksum_algorithm: str | None
    checksum: str | None
    verified: str | None
    verified_text: str | None
    """The statement that this kind of verification proves."""
    not_carried: list[str]
    error_class: str | None
    error_code: str | None
    error_operation: str | None
    error_message: str | None
    error_text: str | None
    """`error_message` for readers of a page."""
    written_by: str | None
    """User and client that wrote a file to a share of a gateway."""
    source_upload_id: str | None
    """The multipart upload that a cleanup aborts."""

    @classmethod
    def of(cls, record: ObjectRecord) -> ObjectOut:
        fields = asdict(record)
        del fields["row"]
        fields["started_at"], fields["ended_at"] = _time(record.started_at), _time(record.ended_at)
        fields["error_message"] = _message(record.error_message)
        fields["verified_text"] = events.VERIFICATIONS.get(record.verified or "")
        fields["error_text"] = _page_text(record.error_message)
        return cls(**fields)


class ObjectPage(BaseModel):
    objects: list[ObjectOut]
    next_cursor: str | None
    """Give it as ``cursor`` for the next page; null at the end."""
    previous_cursor: str | None
    """Give it as ``cursor`` for the page before; null on the first page."""


class FailureGroupOut(BaseModel):
    id: str
    """Of the cause, for a retry of its objects alone."""
    error_class: str
    error_code: str
    operation: str
    message: str
    """Of the first of them."""
    text: str
    """The same for readers of a page: options by the labels of its form."""
    count: int
    bytes: int
    """Of all of these objects, as they were listed."""
    advice: str
    """The next step, as a text for readers of a page."""
    step: str
    """The code of the next step: stable and machine-readable, for example `grant_read`."""
    needs: Needs
    """The party that can fix it: the sender of the data, the operator of Seqferry, or the storage."""
    words: str
    """The cause as the end of "3 files are missing: ...", for people who wait for data."""
    missing_text: str
    """The same for `count` files."""
    keys: list[str]

    @classmethod
    def of(cls, group: FailureGroup) -> FailureGroupOut:
        fields: dict[str, Any] = asdict(group)
        fields["message"] = shorten(steps.split_next_step(group.message)[0])
        cause = recipients.explain_failure(group.error_class, group.error_code, group.operation)
        step = steps.step_code(group)
        return cls(
            id=group.id,
            **fields,
            text=steps.PAGE.with_labels(fields["message"]),
            advice=steps.PAGE_OF_GROUP.step(step),
            step=step,
            needs=cause.needs,
            words=cause.words,
            missing_text=cause.text(group.count),
        )


class FailureGroups(BaseModel):
    causes: list[FailureGroupOut]
    """The most frequent first."""


class SampleOut(BaseModel):
    at: datetime
    """Begin of the interval."""
    seconds: float
    bytes: int
    objects: int
    requests: int
    throttled: int
    workers: int
    """Workers that took part within the interval."""

    @classmethod
    def of(cls, point: Point[Counts]) -> SampleOut:
        return cls(at=_required_time(point.at), seconds=point.seconds, workers=point.workers, **asdict(point.counts))


class Samples(BaseModel):
    samples: list[SampleOut]


class EngineSampleOut(BaseModel):
    at: datetime
    """Begin of the interval."""
    seconds: float
    bytes: int
    """Object bytes that requests moved, within the service or through the worker."""
    requests: int
    retries: int
    throttled: int
    hedges: int
    waited_ms: int
    """Sum of the milliseconds that requests waited for a permit to begin."""
    busy_ms: int
    """Sum of the milliseconds that requests were in flight; divided by 1,000 `seconds` it is the mean concurrency."""

    @classmethod
    def of(cls, point: Point[EngineCounts]) -> EngineSampleOut:
        return cls(at=_required_time(point.at), seconds=point.seconds, **asdict(point.counts))


class EngineSamples(BaseModel):
    samples: list[EngineSampleOut]


def cursor_text(cursor: Cursor | None) -> str | None:
    return None if cursor is None else str(cursor)


def is_time(given: object) -> object:
    """Refuse numbers, which pydantic takes for seconds since the epoch."""
    if not isinstance(given, (str, datetime)) or (
        isinstance(given, str) and not re.match(r"\d{4}-\d\d-\d\d[Tt]", given)
    ):
        raise ValueError("write it as 2026-11-24T08:00:00Z")
    return given


def seconds(time: datetime | None) -> float | None:
    """Seconds since the epoch; of years as well that ``datetime.timestamp`` refuses."""
    return None if time is None else (time - datetime.fromtimestamp(0, UTC)).total_seconds()


def _options(spec: TransferSpec) -> dict[str, Any]:
    options: dict[str, Any] = {
        "if_exists": spec.selection.if_exists,
        "verify": spec.storage.verify,
        "part_size": spec.parts.part_size,
        "copy_threshold": spec.parts.copy_threshold,
        "storage_class": spec.storage.storage_class,
    }
    options |= properties.collect_requested(spec)
    for side, place in (("source", spec.source), ("target", spec.target)):
        for name in ("endpoint_url", "region", "profile"):
            options[f"{side}_{name}"] = getattr(place, name) if isinstance(place, S3Location) else None
    options["no_sign_request"] = isinstance(spec.source, S3Location) and spec.source.anonymous
    return options


def _message(recorded: str | None) -> str | None:
    """A recorded message, shortened for an answer."""
    return None if recorded is None else shorten(recorded)


def _page_text(recorded: str | None) -> str | None:
    return None if recorded is None else shorten(steps.page_text(recorded))


def _required_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else _required_time(seconds)
