"""Decisions for one object: its target, and whether it is copied, skipped, left out or refused, with the reason.

The transfer, its dry run, the removal of a sync and the doors for Nextflow ask here; so will the mount, the gateway and
manifests. Which keys can be paths, and what proves two objects equal, is asked of the engine.

What must stay true: no request, no clock and no disk: the same answer for a dry run and for the transfer itself.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Protocol

from seqferry import paths
from seqferry.engine import equal_as_listed, path_refusal
from seqferry.models import COPIES, OPERATION_CHECK, LocalFolder, Location, TransferSpec
from seqferry.naming import source_key, target_key
from seqferry.selection import matcher, moment
from seqferry.spec import is_same_store, selection_of

Action = Literal["copy", "skip", "leave_out", "refuse", "ignore"]
"""``leave_out``: never copied (a device, a socket), which is no failure. ``ignore``: the same, without a record."""

_MAX_KEY_BYTES: Final = 1024


class Decision(NamedTuple):
    """Planned action for one object of the source, and its target key.

    Attributes:
        code, reason: why it is refused or left out, for machines and in words.
        verified: what the skip rests on.
    """

    action: Action
    target_key: str
    code: str | None = None
    reason: str | None = None
    verified: str | None = None

    @property
    def refusal(self) -> tuple[str, str] | None:
        """Code and reason of what is refused or left out."""
        return None if self.code is None else (self.code, self.reason or "")

    @property
    def is_left_out(self) -> bool:
        """True for what is not copied, and is no failure."""
        return self.action == "leave_out"


class ListedObject(Protocol):
    """An object as a listing shows it."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def last_modified(self) -> float: ...
    @property
    def version_id(self) -> str | None: ...
    @property
    def refusal(self) -> tuple[str, str] | None: ...


def decide(
    spec: TransferSpec, found: ListedObject, own: str | None = None, there: ListedObject | None = None
) -> Decision:
    """Decides on the action for ``found``, an object of the source. The spec as a whole has been ``checked``.

    Args:
        own: the folder of our records.
        there: what a listing shows under the target key, where ``compares_listings``.
    """
    to = target_key(spec, found.key, found.version_id)
    if not is_selected(spec, found):
        return Decision("ignore", to)
    if is_left_out(spec, found.key, found.size):
        return Decision("ignore", to)
    decision = decide_names(spec, found.key, to, found.size, found.refusal, own)
    if decision.action != "copy":
        return decision
    if spec.settle is not None and found.last_modified > moment(spec.settle, spec.as_of or 0.0):
        why = f"{spec.source.at(found.key)}: it was changed within the last {spec.settle} and may still grow."
        return refuse(to, "Unsettled", f"{why} Run the same command again later.")
    if there is not None and there.refusal is None:
        verified = equal_as_listed((found.size, found.etag), (there.size, there.etag))
        if verified is not None:
            return Decision("skip", to, verified=verified)
    return decision


def decide_names(
    spec: TransferSpec,
    source_key: str,
    target_key: str,
    size: int,
    listed: tuple[str, str] | None = None,
    own: str | None = None,
) -> Decision:
    """Decides by its names and its size alone whether the object ``source_key`` can go to ``target_key``.

    For what is selected, or chosen by other rules (members of archives, versions). Arguments are those of ``refusal``.
    """
    refused = refusal(spec, source_key, target_key, size, listed, own)
    return Decision("copy", target_key) if refused is None else refuse(target_key, *refused)


def refuse(target_key: str, code: str, reason: str) -> Decision:
    """Decision on an object that is not copied: some codes say that it is left out, which is no failure."""
    return Decision("leave_out" if code in paths.LEFT_OUT else "refuse", target_key, code, reason)


class PredictedAction(NamedTuple):
    """Action that listings of both sides predict for an object that can be copied, with the reason."""

    action: Literal["copy", "skip", "compare", "refuse"]
    because: str


def foreseen(
    spec: TransferSpec, found: ListedObject, decision: Decision, there: ListedObject | None
) -> PredictedAction:
    """Predicts from listings the action for ``found``, for which ``decide`` has returned ``copy`` or ``skip``.

    ``there`` is what a listing shows under the target key; None when nothing is there.
    """
    if decision.action == "skip":
        return PredictedAction("skip", "equal ETags")
    if there is None or there.refusal is not None:
        return PredictedAction("copy", "absent")
    match spec.if_exists:
        case "skip":
            return PredictedAction("skip", "it exists")
        case "fail":
            return PredictedAction("refuse", f"{spec.target.at(decision.target_key)} exists, and --if-exists is fail.")
        case "overwrite":
            return PredictedAction("copy", "it is overwritten")
        case "same" if found.size != there.size:
            return PredictedAction("copy", "size differs")
        case "same":
            return PredictedAction("compare", "same size; compared when it is done")


def is_selected(spec: TransferSpec, found: ListedObject) -> bool:
    """True when wildcard, rules, sizes and ages of the spec select an object of the source."""
    test = matcher(selection_of(spec))
    return test is None or test(found.key, found.size, found.last_modified)


def compares_listings(spec: TransferSpec) -> bool:
    """True when equal ETags in the listings of both sides are enough to skip an object."""
    on_disk = isinstance(spec.source, LocalFolder) or isinstance(spec.target, LocalFolder)
    enough = spec.verify == "auto" or (spec.verify == "checksum" and spec.operation == OPERATION_CHECK)
    return spec.if_exists == "same" and enough and not on_disk


def is_left_out(spec: TransferSpec, source_key: str, size: int) -> bool:
    """True for the empty object whose key is the source prefix itself, when the target is the root of a bucket.

    Such markers are made by consoles for "folders". Nothing of the key would be left, and there is nothing to copy.
    """
    return size == 0 and source_key == spec.strip and target_key(spec, source_key) == ""


def refusal(
    spec: TransferSpec,
    source_key: str,
    target_key: str,
    size: int,
    listed: tuple[str, str] | None = None,
    own: str | None = None,
) -> tuple[str, str] | None:
    """Reason why the object ``source_key`` cannot go to ``target_key``, as code and message; None when it can.

    ``listed`` is why the listing says that it is no object, if so; ``own`` the folder of our records.
    """

    # Nearly all objects can be copied: what is said of the others is put into words for them only.
    def source() -> str:
        return spec.source.at(source_key)

    if listed is not None:
        return listed[0], f"{source()}: {listed[1]}"
    if own is not None and (is_own(spec.source, source_key, own) or is_own(spec.target, target_key, own)):
        return "StateFolder", f"{source()}: records of transfers, which change as this one goes on, are kept in {own}."
    if isinstance(spec.target, LocalFolder) and target_key != "":
        if (refused := path_refusal(target_key, size)) is None:
            return None
        return refused[0], f"{source()} cannot be a file in {spec.target.path}: {refused[1]}"
    if target_key == "":
        why = f"{source()} is the source prefix itself, so that no name is left for it in {spec.target.at('')}."
        return "EmptyTargetKey", f"{why} Choose a target prefix, for example {spec.target.at('copy/')}."
    if spec.rename and {".", ".."} & (set(target_key.split("/")) - set(source_key.split("/"))):
        why = f"{source()} would become {spec.target.at(target_key)}, and some storages take '.' and '..' for folders."
        return "DotSegment", f"{why} Change the rule of --rename."
    # The storage may hold keys that are not UTF-8: they count as many bytes as they have.
    size = len(target_key.encode("utf-8", "surrogateescape"))
    if size > _MAX_KEY_BYTES:
        why = f"Its target key would have {size} bytes, and S3 allows {_MAX_KEY_BYTES}."
        return "TargetKeyTooLong", f"{why} Choose a shorter target prefix."
    lists = spec.operation in COPIES and spec.keys is None and not spec.single
    if lists and target_key.startswith(spec.source.key) and is_same_store(spec):
        target = spec.target.at(target_key)
        why = f"Its target {target} lies inside the source: copying it could overwrite another object of the source."
        return "TargetInsideSource", f"{why} Choose a target outside of the source."
    return None


def is_own(place: Location, key: str, own: str) -> bool:
    """True when a key of this place is in the folder of our records."""
    within = paths.below(place.path, own) if isinstance(place, LocalFolder) else None
    return within is not None and key.startswith(within)


# --- removal ----------------------------------------------------------------------------------------------------------


class RemovalRefusal(NamedTuple):
    """Reason why nothing is removed at the target. ``is_failure``: the transfer ends as failed for it."""

    code: str
    reason: str
    is_failure: bool


def why_kept(spec: TransferSpec, objects: int, failed: int) -> RemovalRefusal | None:
    """Reason to remove nothing after so many objects of the source and failures among them; None when there is none.

    A source that could not be read, or is empty, is no reason to remove anything.
    """
    if failed:
        return RemovalRefusal(
            "NotAllArrived", f"Nothing is removed when not all can arrive. {failed} objects failed.", False
        )
    if objects == 0:
        why = f"Nothing is at {spec.source.uri}, and --delete would remove all of {spec.target.uri}: that is refused."
        return RemovalRefusal("EmptySource", f"{why} Check the source; to empty a target, remove it yourself.", True)
    return None


def too_many(spec: TransferSpec, found: int) -> RemovalRefusal | None:
    """Reason to remove nothing when ``found`` objects would be; None when they are within ``max_delete``."""
    if spec.max_delete is None or found <= spec.max_delete:
        return None
    why = f"More than {spec.max_delete} objects at {spec.target.uri} are not in the source."
    advice = "Nothing was removed; look at them with --dry-run, then allow more with --max-delete."
    return RemovalRefusal("TooManyToDelete", f"{why} {advice}", True)


def removable(spec: TransferSpec, there: ListedObject, own: str) -> str | None:
    """The key of the source that an object at the target comes from: it is removed when nothing is there any more.

    None for what is never removed: what is no object, what the spec does not select, and records of ours.
    """
    if there.refusal is not None or is_own(spec.target, there.key, own):
        return None
    key = source_key(spec, there.key)
    test = matcher(selection_of(spec))
    return key if test is None or test(key, there.size, there.last_modified) else None
