"""Values that cross layers. Frozen; no behaviour beyond what follows from their own fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Any, Final, Literal, Self, TypeVar, cast

from seqferry.model import operations
from seqferry.model.frozen import frozen
from seqferry.model.labels import NOTHING, Description
from seqferry.model.locations import Location
from seqferry.model.operations import Operation
from seqferry.model.option_groups import (
    MEMBER_OF,
    Attributes,
    Filters,
    Names,
    Parts,
    Protection,
    Removal,
    Selection,
    Speed,
    Storage,
)

DataPath = Literal["copy", "stream"]
"""``copy``: the storage copies the bytes itself. ``stream``: they pass through the process that does the work."""

TransferState = Literal[
    "queued", "planning", "running", "paused", "cancelling", "cancelled", "done", "done_with_failures", "failed"
]
"""``done``: all objects have ended, and none has failed. ``done_with_failures``: all have ended, and some have failed.
``failed``: a job-wide error stopped it."""

WITH_FAILURES: Final = "done_with_failures"
DONE_STATES: Final[frozenset[str]] = frozenset({"done", WITH_FAILURES})
"""States of transfers whose objects have all ended."""

ENDED_TRANSFER_STATES: Final[frozenset[str]] = DONE_STATES | {"cancelled", "failed"}

ObjectState = Literal["pending", "active", "done", "skipped", "failed", "cancelled"]
OPEN_OBJECT_STATES: Final[tuple[str, ...]] = ("pending", "active")

ERROR_CLASSES: Final[tuple[str, ...]] = (
    "retry",  # would have passed on another try, and did not within the retries
    "throttle",  # the service refused requests as too many, for too long
    "credentials",  # expired, and could not be refreshed
    "redirect",  # wrong region, and the right one could not be learned
    "source_changed",  # overwritten or deleted while it was copied
    "object",  # this object cannot be copied as asked
    "person",  # needs a person: permissions, archived objects, missing buckets
    "capability",  # the service does not support what was requested
    "mismatch",  # what arrived is not what was sent
    "exists",  # the target exists, and --if-exists fail was given
)

AT_REST: Final = "0s"
"""Value of ``settle`` for files that do not change any more, and are not checked again."""

RESULT_COLUMNS: Final = (
    "id",
    "state",
    # Of the source as it was copied, which may be another than was listed.
    "size",
    "etag",
    "method",
    "started_at",
    "ended_at",
    # Added to what is known already.
    "attempts",
    "retries",
    "target_etag",
    "target_version_id",
    "checksum_algorithm",
    "checksum",
    "verified",
    "not_carried",
    "error_class",
    "error_code",
    "error_operation",
    "error_message",
    # Whether the id of the upload is kept.
    "keeps_upload",
)
"""Columns of the result of an object, in the order in which they go from a job into the database."""


@frozen
class KeyRange:
    """One of several sources of a transfer: an object, all below a prefix, or what a wildcard selects.

    The fields mean what they mean in ``TransferSpec``; ``key`` is that of the source. The target key is the target,
    ``into``, and what follows ``strip``; with ``single``, the target and ``into``.
    """

    key: str
    strip: str = ""
    single: bool = False
    pattern: str | None = None
    into: str = ""


OPERATION_TRANSFER: Final = "transfer"
OPERATION_PACK: Final = "pack"
OPERATION_UNPACK: Final = "unpack"
OPERATION_MOVE: Final = "move"
OPERATION_REMOVE: Final = "remove"
OPERATION_CHECK: Final = "check"
OPERATION_CLEANUP: Final = "cleanup"
OPERATION_RUN: Final = "run"
OPERATION_HISTORY: Final = "history"
OPERATION_VERIFY: Final = "verify"
OPERATION_GATEWAY: Final = "gateway"


_Made = TypeVar("_Made")


class Compiled:
    """A frozen value that keeps what is made of it, as tables for look-ups: made once, gone with the value."""

    __slots__ = ("_compiled",)

    _compiled: dict[Callable[[Any], Any], Any]

    def compile_with(self, make: Callable[[Self], _Made]) -> _Made:
        """The value that ``make``, a function or a class of a module, makes of this one.

        Two threads may make it concurrently.
        """
        try:
            known = self._compiled
        except AttributeError:
            known = {}
            object.__setattr__(self, "_compiled", known)
        if make not in known:
            known[make] = make(self)
        return known[make]


@frozen
class TransferSpec(Compiled):
    """The request of a transfer: places, and groups of options (``option_groups``).

    Stored in the ``transfer`` row (``spec.stored``) and never changed.

    Which objects: with ``keys`` those (each is ``source.key + one of keys``); else with ``single`` the one object
    ``source.key``; else all whose key starts with ``source.key``. Where to: the target key is ``target.key`` followed
    by what follows ``strip`` at the start of the source key (``strip`` is always a prefix of it); with ``single``,
    ``target.key`` itself. With ``delete``, what is below ``target.key`` and has no object in the source is removed once
    all has arrived, unless that would be more than ``max_delete`` objects.

    A new field has a default that means what specs without it have meant: only other values are stored, so that older
    workers do what they can do.
    """

    source: Location
    target: Location
    strip: str = ""
    single: bool = False
    keys: tuple[str, ...] | None = None
    selection: Selection = field(default_factory=Selection)
    filters: Filters = field(default_factory=Filters)
    """With ``pattern`` and the rules of ``names``, the objects that are meant: see ``spec.selection``."""
    names: Names = field(default_factory=Names)
    removal: Removal = field(default_factory=Removal)
    speed: Speed = field(default_factory=Speed)
    """As submitted; see ``Adjustment`` for now."""
    parts: Parts = field(default_factory=Parts)
    storage: Storage = field(default_factory=Storage)
    protection: Protection = field(default_factory=Protection)
    attributes: Attributes = field(default_factory=Attributes)
    pattern: str | None = None
    """A wildcard that a source key has to match as a whole: see ``spec.selection``."""
    as_of: float | None = None
    """The time that ages count from, in seconds since the epoch."""
    versions: tuple[str, ...] = ()
    """Version ids of ``keys``, in their order, or with ``single`` that of the object; empty texts for current ones."""
    targets: tuple[str, ...] = ()
    """Names of ``keys`` below the target, in their order; empty texts for those that keep their name."""
    ranges: tuple[KeyRange, ...] = ()
    """Several sources, all in the container of ``source``, whose key is what their keys begin with."""
    inventory: str | None = None
    """The manifest of an S3 Inventory that lists the source: see ``inventory``."""
    preflight: bool = True
    """The first objects are checked before any is copied."""
    operation: str = OPERATION_TRANSFER
    """Name of the operation that is done with the objects, as in ``operations``."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Options of the operation that are its own: values that JSON can hold."""
    retry_of: str | None = None
    """The transfer whose unfinished objects are copied, and no others. The fields above are those of that transfer."""
    files_from: str | None = None
    """Of a schedule: the absolute path of the list that each run reads. The spec of a run has its ``keys``."""
    files_format: str = "lines"
    """Form of that list: ``lines`` or ``csv``."""

    @property
    def kind(self) -> Operation:
        """The operation that ``operation`` names."""
        return operations.find_operation(self.operation)

    def derive(self, **changed: Any) -> Self:
        """The same with other values, of which the caller knows that they are as right as these.

        A checked spec stays checked and a resolved one resolved, where ``replace`` makes a plain one.
        """
        return replace(self, **changed)

    def with_options(self, **options: Any) -> TransferSpec:
        """The spec with other values of options, named as in the groups that hold them: no longer a checked one."""
        changed: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            changed.setdefault(MEMBER_OF[name], {})[name] = value
        return replace(self, **{member: replace(getattr(self, member), **new) for member, new in changed.items()})

    def __eq__(self, other: object) -> bool:
        # What a spec asks for counts, not whether it was checked.
        return isinstance(other, TransferSpec) and all(
            getattr(self, one.name) == getattr(other, one.name) for one in fields(TransferSpec)
        )


class CheckedSpec(TransferSpec):
    """A spec that makes sense (``validate_spec``). With other values (``replace``) it is a plain one again."""

    __slots__ = ()

    def __new__(cls, *args: Any, **given: Any) -> Self:
        return cast("Self", TransferSpec(*args, **given))

    @classmethod
    def of(cls, spec: TransferSpec) -> Self:
        """For ``validate_spec`` and its kind alone: the caller has seen to what the class says of the spec."""
        found = object.__new__(cls)
        for one in fields(TransferSpec):
            object.__setattr__(found, one.name, getattr(spec, one.name))
        return found

    def derive(self, **changed: Any) -> Self:
        return type(self).of(replace(self, **changed))


class ResolvedSpec(CheckedSpec):
    """A checked spec whose places have their endpoint, region and identity: of ``spec.identity.resolve``, or a record.

    All that plans and does a transfer takes it, and neither resolves nor checks it again.
    """

    __slots__ = ()


@frozen
class Totals:
    objects: int = 0
    bytes: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    bytes_done: int = 0
    """Bytes of done and skipped objects, plus parts of unfinished ones while a worker is at it."""

    @property
    def ended(self) -> int:
        return self.done + self.skipped + self.failed + self.cancelled

    def facts(self) -> dict[str, int]:
        """As events in JSON, summaries and notices hold them."""
        return {
            "objects": self.objects,
            "objects_done": self.done,
            "objects_skipped": self.skipped,
            "objects_failed": self.failed,
            "objects_cancelled": self.cancelled,
            "bytes": self.bytes,
            "bytes_done": self.bytes_done,
        }


@frozen
class ActiveObject:
    key: str
    size: int
    bytes_done: int
    seconds: float


@frozen
class LiveActivity:
    """Sum of the last seconds' reports of the workers on the transfer; all zero when no worker is at it."""

    workers: int = 0
    bytes_per_second: float = 0.0
    in_flight: int = 0
    requests: int = 0
    retries: int = 0
    throttled: int = 0
    slowest: tuple[ActiveObject, ...] = ()


RETRY_CAUSE: Final = "retry_cause"
"""Option, of a retry of any operation: only objects that have failed for this cause (``cause_id``) are tried again."""

MAX_PRIORITY: Final = 10
MAX_ATTEMPTS: Final = 100
"""Attempts of a request: with the pauses between them, more take hours."""


@frozen
class Adjustment:
    """Settings of a transfer that may be changed while it is under way.

    Attributes:
        priority: transfers of a higher one are served first, from -10 to 10.
        max_requests: requests in flight in each process that works at it; None: as the process was started.
        max_bandwidth: bytes per second through each such process, as ``config.Bandwidth`` is written; None: as above.
        tpslimit: requests started per second by each such process; None: as above.
    """

    priority: int = 0
    max_requests: int | None = None
    max_bandwidth: str | None = None
    tpslimit: int | None = None


@frozen
class Status:
    """One transfer, now. Times are seconds since the epoch."""

    id: str
    state: TransferState
    spec: ResolvedSpec
    totals: Totals
    planned: bool
    """False while the source is still being listed, so that the totals still grow."""
    created_at: float
    created_by: str
    started_at: float | None = None
    ended_at: float | None = None
    error_code: str | None = None
    error_message: str | None = None
    live: LiveActivity = field(default_factory=LiveActivity)
    waits_for: str | None = None
    """Worker that the transfer lacks, as text, when no live worker may take it: ``a worker with profile lab``."""
    unsupported: str | None = None
    """Part of the spec that this version does not know, as text; ``spec`` then holds the rest that can be shown."""
    ahead: int | None = None
    """Transfers that workers take before it, while it waits for nothing but its turn."""
    blocked_by: str | None = None
    """The unfinished transfer that it waits for, since both write to the same keys."""
    receipt_digest: str | None = None
    """SHA-256 of the receipt, in hexadecimal, once the transfer has ended (``db.receipts``)."""
    pruned_at: float | None = None
    """Since then its objects are in the receipt only."""
    adjustment: Adjustment = field(default_factory=lambda: Adjustment())
    retried_by: str | None = None
    """The latest transfer that copies what has failed of this one."""
    description: Description = NOTHING

    @property
    def ended(self) -> bool:
        return self.state in ENDED_TRANSFER_STATES

    @property
    def next_step(self) -> Literal["retry"] | None:
        """The verb that brings over what is left of an ended transfer; None when nothing is, or it was done.

        A gateway itself repeats uploads that failed.
        """
        if self.spec.kind.recorded_by_gateway:
            return None
        left = self.totals.failed or self.state in ("failed", "cancelled")
        return "retry" if self.ended and left and self.retried_by is None else None


@frozen
class Submission:
    """The answer to a submission. ``goes_on``: it is an unfinished transfer that was submitted before."""

    id: str
    goes_on: bool = False
    blocked: bool = False
    """True when the transfer waits for another one that writes to the same keys."""


@frozen
class ObjectRecord:
    """The fate of one object. ``row`` orders objects within a transfer and serves as the paging cursor."""

    row: int
    source_key: str
    target_key: str
    size: int
    etag: str
    version_id: str | None
    state: ObjectState
    attempts: int
    retries: int
    method: str | None
    started_at: float | None
    ended_at: float | None
    target_etag: str | None
    target_version_id: str | None
    checksum_algorithm: str | None
    checksum: str | None
    verified: str | None
    not_carried: tuple[str, ...]
    error_class: str | None
    error_code: str | None
    error_operation: str | None
    error_message: str | None
    written_by: str | None = None
    """User and client that wrote a file to a share: ``uid 1000 at 10.1.2.3``."""
    source_upload_id: str | None = None
    """The multipart upload that ``cleanup`` aborts."""


@frozen
class FailureGroup:
    """Failed objects with the same cause."""

    error_class: str
    error_code: str
    operation: str
    message: str
    """Message of the first of these failures."""
    count: int
    keys: tuple[str, ...]
    """Keys in their order, up to the requested number."""
    bytes: int = 0
    """Of all of these objects, as they were listed."""

    @property
    def id(self) -> str:
        """Name of the cause: the same for the same class, code and operation, in each transfer."""
        return cause_id(self.error_class, self.error_code, self.operation)


def cause_id(error_class: str | None, error_code: str | None, operation: str | None) -> str:
    """Name of a cause of failures, for requests."""
    parts = [error_class or "", error_code or "", operation or ""]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


@frozen
class Event:
    number: int
    at: float
    kind: str
    actor: str
    data: dict[str, Any]
    hash: str


@frozen
class PlannedCopy:
    """Decision of a dry run on one object: the copy that the transfer would make, or the reason why it would not."""

    source_key: str
    target_key: str
    size: int
    refusal: str | None = None
    left_out: bool = False
    """True when the object would be left out for the reason in ``refusal``, which is no failure."""
    action: Literal["copy", "skip", "compare"] = "copy"
    """Unless refused. ``compare``: the listings do not decide; the transfer checks both objects, and may skip one."""
    because: str = "absent"
    """Reason for the action, as text that many objects share."""
    detail: str = ""
    """Words that end ``because`` for this object alone."""
    code: str = ""
    """Error code of the refusal, which many objects share."""
    operation: str = "plan"
    """Operation of the storage that is refused; ``plan`` where none is."""

    @property
    def reason(self) -> str:
        """Reason for the action or the refusal, as text."""
        return self.refusal or f"{self.because} {self.detail}".rstrip()


@frozen
class Verification:
    """Objects of a transfer that ended in the same state by the same verification (``ObjectRecord.verified``)."""

    state: ObjectState
    verified: str
    objects: int
    bytes: int
    retries: int
    """Requests sent again for them."""
    not_carried: int
    """Number of them that lack something of their source, as tags that may not be read."""
    streamed: int = 0
    """Number of them that passed through a process of ours."""
    left_out: int = 0
    """Number of them that were not wanted or cannot be copied: special files, links that are to be skipped."""
