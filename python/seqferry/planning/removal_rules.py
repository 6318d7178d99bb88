"""Rules of removal: what a sync, a move and ``rm`` remove, and the reasons to remove less or nothing.

Invariants: no request, no clock and no disk, as in ``planning.decision``. No removal is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from seqferry.model.formatting import count
from seqferry.model.locations import LocalFolder
from seqferry.model.messages.steps import COMMAND_LINE
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths
from seqferry.planning.decision import ListedObject, SelectableObject, is_own, is_selected
from seqferry.spec.selection import build_conditions, build_matcher
from seqferry.spec.target_keys import source_key

_NAMED_AT_MOST: Final = 3


# --- sync -------------------------------------------------------------------------------------------------------------


class RemovalRefusal(NamedTuple):
    """Reason why nothing, or not all, is removed.

    Attributes:
        is_failure: the transfer ends as failed for it.
        cause: the reason in short, for the record of a transfer that does not fail.
    """

    code: str
    reason: str
    is_failure: bool
    cause: str = ""


def refuse_incomplete_source(spec: ResolvedSpec, objects: int, failed: int) -> RemovalRefusal | None:
    """Refusal to remove anything because objects have failed or the source is empty; None if neither."""
    if failed:
        cause = f"{count(failed, 'object')} failed"
        return RemovalRefusal(
            "NotAllArrived", f"Nothing is removed when not all can arrive. {cause}.", is_failure=False, cause=cause
        )
    if objects == 0:
        why = f"Nothing is at {spec.source.uri}, and --delete would remove all of {spec.target.uri}: that is refused."
        return RemovalRefusal("EmptySource", f"{why} Check the source; to empty a target, remove it yourself.", True)
    return None


def refuse_over_max_delete(spec: ResolvedSpec, found: int) -> RemovalRefusal | None:
    """Refusal to remove anything if ``found`` is more than ``max_delete``; None if it is not."""
    if spec.removal.max_delete is None or found <= spec.removal.max_delete:
        return None
    why = f"More than {spec.removal.max_delete} objects at {spec.target.uri} are not in the source."
    return RemovalRefusal("TooManyToDelete", f"{why} {COMMAND_LINE.text('allow_more_removals')}", True)


def refuse_changed_names(spec: ResolvedSpec, unseen: int) -> RemovalRefusal | None:
    """Refusal to remove anything if ``unseen`` arrived objects are not listed at the target; None if all are listed.

    Some storages change names: a new copy would then look like an object that the source does not have.
    """
    if unseen <= 0:
        return None
    why = f"{unseen} of the objects that have arrived are not listed at {spec.target.uri} under their names"
    advice = "The storage may have changed their names, or another program has removed them. Nothing was removed."
    return RemovalRefusal("NamesChanged", f"{why}. {advice}", is_failure=True)


def refuse_unseen_folders(refused: Sequence[str]) -> RemovalRefusal | None:
    """Refusal to remove anything in the folders ``refused`` of the target; None if there are none."""
    if not refused:
        return None
    places = ", ".join(refused[:_NAMED_AT_MOST]) + (" and more" if len(refused) > _NAMED_AT_MOST else "")
    why = f"The contents of {places} could not be listed, so nothing was removed there."
    return RemovalRefusal("NotLookedAt", f"{why} {COMMAND_LINE.text('read_folder')}", is_failure=True)


def hides_objects(there: ListedObject) -> bool:
    """True for a name at the target that could not be read, so that objects may be below it."""
    return there.refusal is not None and there.refusal[0] not in paths.LEFT_OUT


def removable_key(spec: ResolvedSpec, there: ListedObject, own: str) -> str | None:
    """The source key of an object at the target, which is removed if the source has no object with that key.

    None for names that are never removed: no objects, not selected by the spec, or records of Seqferry.
    """
    if there.refusal is not None or is_own(spec.target, there.key, own):
        return None
    key = source_key(spec, there.key)
    test = build_matcher(build_conditions(spec))
    return key if test is None or test(key, there.size, there.last_modified) else None


# --- move -------------------------------------------------------------------------------------------------------------


class RecordedCopy(Protocol):
    """The copy of an object as it is on record."""

    @property
    def size(self) -> int: ...
    @property
    def target_etag(self) -> str | None: ...
    @property
    def target_version_id(self) -> str | None: ...
    @property
    def ended_at(self) -> float | None: ...


class PresentCopy(ListedObject, Protocol):
    """An object of the target as it is now. ``changed``: last change of a file or its name; 0 for others."""

    @property
    def changed(self) -> float: ...


def refuse_source_removal(
    spec: ResolvedSpec, copy: RecordedCopy, there: PresentCopy | None, source: ListedObject | None
) -> str | None:
    """Reason why a move does not remove the source of an arrived object; None if none is known so far.

    Args:
        there: the copy as it is now.
        source: the source as it is now, where it and the target could be one object under two addresses.
    """
    if there is None:
        return "its copy is not there any more"
    if there.refusal is not None:
        return f"its copy cannot be read: {there.refusal[1].rstrip('.')}"
    if there.size != copy.size:
        return f"its copy has {there.size:,} bytes by now, and {copy.size:,} were recorded"
    if not isinstance(spec.target, LocalFolder) and copy.target_etag and there.etag != copy.target_etag:
        return "its copy was overwritten"
    if source is not None and source.last_modified == there.last_modified:
        return "source and target seem to be one object under two addresses"
    return None


def needs_content_check(spec: ResolvedSpec, copy: RecordedCopy, there: PresentCopy) -> bool:
    """True if the copy must be read to know whether it is the recorded one; its size is the recorded one.

    A file is the recorded one while its size, time and inode are (its ETag), and it has not been changed after it was
    recorded: a program that writes to it can set its time back. An object is the recorded one by its ETag, and by
    its version where both are known.
    """
    if copy.size == 0:
        return False
    if not copy.target_etag or there.etag != copy.target_etag:
        return True
    if isinstance(spec.target, LocalFolder):
        return copy.ended_at is None or there.changed > copy.ended_at
    versions = (copy.target_version_id, there.version_id)
    return None not in versions and versions[0] != versions[1]


def may_be_same_object(spec: ResolvedSpec, source_key: str, target_key: str) -> bool:
    """True when source and target could be the same object, reached by two addresses of the same storage."""
    return spec.source.container == spec.target.container and source_key == target_key


# --- rm ---------------------------------------------------------------------------------------------------------------


def is_removed(spec: ResolvedSpec, found: ListedObject) -> bool:
    """True for an object that ``rm`` removes."""
    return found.refusal is None and is_selected(spec, found)


class RemovableVersion(SelectableObject, Protocol):
    """A version of an object, or a delete marker."""

    @property
    def version_id(self) -> str | None: ...


def is_version_removed(spec: ResolvedSpec, found: RemovableVersion, *, exact: bool, version_id: str | None) -> bool:
    """True for a version that ``rm`` removes permanently.

    Args:
        exact: select the key of the source only, not keys that begin with it.
        version_id: select this version only.
    """
    if exact and found.key != spec.source.key:
        return False
    return is_selected(spec, found) if version_id is None else found.version_id == version_id


def refuse_too_many(spec: ResolvedSpec, most: int | None, found: int) -> RemovalRefusal | None:
    """Refusal of ``rm`` to remove anything if ``found`` is more than ``most``; None if it is not."""
    if most is None or spec.single or found <= most:
        return None
    why = f"More than {most:,} objects at {spec.source.uri} would be removed, which needs a confirmation."
    return RemovalRefusal("TooManyToDelete", f"{why} {COMMAND_LINE.text('confirm_removals')}", is_failure=True)


def refuse_other_count(spec: ResolvedSpec, noun: str, *, expected: int, found: int) -> RemovalRefusal | None:
    """Refusal of ``rm`` and ``cleanup`` to change anything if ``found`` differs from ``expected``; None if equal."""
    if found == expected:
        return None
    why = f"{count(found, noun)} at {spec.source.uri} would be removed by now, and {expected:,} were expected."
    return RemovalRefusal("AnotherNumber", f"{why} {COMMAND_LINE.text('check_number')}", is_failure=True)
