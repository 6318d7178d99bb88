"""Decisions for one object: its target, and whether it is copied, skipped, left out or refused, with the reason.

Transfers, dry runs, archives, version histories and the Nextflow shims use it. The engine decides which keys can be
paths, and which attributes prove that two objects are equal. Removals: ``removal_rules``.

Invariant: no request, no clock and no disk, so that a dry run and the transfer decide the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Protocol

from seqferry.engine.engine import FailedLookup
from seqferry.engine.rules import equal_as_listed, path_refusal
from seqferry.model.locations import LocalFolder, Location
from seqferry.model.messages.steps import COMMAND_LINE
from seqferry.model.models import ResolvedSpec
from seqferry.model.option_groups import Filters
from seqferry.places import paths
from seqferry.planning import unchanged
from seqferry.settings import policy
from seqferry.spec.check import MISSING_AT_SOURCE
from seqferry.spec.selection import build_conditions, build_matcher, parse_age, parse_time
from seqferry.spec.target_keys import nul_refusal, target_key
from seqferry.spec.validation import is_local, is_same_store

Action = Literal["copy", "skip", "leave_out", "refuse", "ignore"]
"""``leave_out``: never copied (a device, a socket), which is no failure. ``ignore``: the same, without a record."""

MAX_VERSIONS: Final = 1000
"""Versions of one object: they make one batch."""

_MAX_KEY_BYTES: Final = 1024
_SHORT_KEY: Final = _MAX_KEY_BYTES // 4
"""Characters of a key that has at most ``_MAX_KEY_BYTES`` in any case: one takes at most 4 in UTF-8."""


class Decision(NamedTuple):
    """Planned action for one object of the source, and its target key.

    Attributes:
        code, reason: code and text of the refusal, or why it is left out.
        verified: verification that the skip rests on.
        target_etag: ETag of the object at the target that the skip leaves there.
        file_changed: last change of the file of either side, for the record (``unchanged``).
        error_class, operation: of what is refused; the operation is that of the storage, or ``plan``.
    """

    action: Action
    target_key: str
    code: str | None = None
    reason: str | None = None
    verified: str | None = None
    target_etag: str | None = None
    error_class: str = "object"
    operation: str = "plan"
    file_changed: float | None = None

    @property
    def refusal(self) -> tuple[str, str] | None:
        """Code and reason of what is refused or left out."""
        return None if self.code is None else (self.code, self.reason or "")

    @property
    def is_left_out(self) -> bool:
        """True for what is not copied, and is no failure."""
        return self.action == "leave_out"


class KeyRules(NamedTuple):
    """Rules for keys that the spec does not hold: they come from the process that does the work, and from its client.

    Attributes:
        state_dir: the folder of our records, which is not copied; None without records.
        confined: the transfer is a client's, and clients may write to a part of the target only.
        nul: the database can record keys with a NUL character.
        manifest_read: puts the SHA-256 of the manifest of an inventory on record; None without records.
    """

    state_dir: str | None = None
    confined: bool = False
    nul: bool = True
    manifest_read: Callable[[str], None] | None = None


NO_RULES: Final = KeyRules()


class SelectableObject(Protocol):
    """The part of an object, or of a version of it, that selects it."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def last_modified(self) -> float: ...


class ListedObject(SelectableObject, Protocol):
    """An object as a listing shows it."""

    @property
    def etag(self) -> str: ...
    @property
    def version_id(self) -> str | None: ...
    @property
    def refusal(self) -> tuple[str, str] | None: ...


def decide(
    spec: ResolvedSpec, found: ListedObject, rules: KeyRules = NO_RULES, there: ListedObject | None = None
) -> Decision:
    """As a ``Decider`` decides on one object."""
    return Decider(spec, rules).decide(found, there)


class Decider:
    """Decides on the objects of a source. The spec as a whole has been ``checked``.

    What does not depend on the object is found out once: a million objects are decided on by the same spec.
    """

    def __init__(self, spec: ResolvedSpec, rules: KeyRules = NO_RULES) -> None:
        self._spec: Final = spec
        self._rules: Final = rules
        self._selects: Final = build_matcher(build_conditions(spec))
        self._keeps_names: Final = not (spec.single or spec.targets or spec.names.rename)
        self._is_plain: Final = _has_plain_names(spec, rules)
        self._compares_listings: Final = compares_listings(spec)
        settle = spec.selection.settle
        is_settling = settle is not None and parse_age(settle)
        self._settled_at: Final = parse_time(settle, spec.as_of or 0.0) if settle is not None and is_settling else None

    def decide(
        self, found: ListedObject, there: ListedObject | None = None, recorded: unchanged.Recorded | None = None
    ) -> Decision:
        """Decides on the action for ``found``, an object of the source.

        Args:
            there: the object that a listing shows under the target key.
            recorded: the record of an earlier transfer that may show that both sides are unchanged.
        """
        spec, key = self._spec, found.key
        if self._keeps_names:
            to = spec.target.key + key.removeprefix(spec.strip)
        else:
            to = target_key(spec, key, found.version_id)
        if isinstance(found, FailedLookup):
            return _decide_failed_lookup(spec, found, to)
        size = found.size
        if self._selects is not None and not self._selects(key, size, found.last_modified):
            return Decision("ignore", to)
        if size == 0 and is_left_out(spec, key, size):
            return Decision("ignore", to)
        if self._is_plain and 0 < len(to) <= _SHORT_KEY and found.refusal is None and "\0" not in key:
            decision = Decision("copy", to)
        else:
            decision = decide_names(spec, key, to, size, found.refusal, self._rules)
            if decision.action != "copy":
                return decision
        if self._settled_at is not None and found.last_modified > self._settled_at:
            why = f"{spec.source.at(key)}: it was changed within the last {spec.selection.settle} and may still grow."
            return refuse(to, "Unsettled", f"{why} Run the same command again later.")
        if there is None or there.refusal is not None:
            return decision
        return self._compare(found, there, decision, recorded)

    def _compare(
        self, found: ListedObject, there: ListedObject, decision: Decision, recorded: unchanged.Recorded | None
    ) -> Decision:
        """A skip when the listings show that nothing is to be copied, else ``decision``."""
        verified = self._compare_listed(found, there) if self._compares_listings else None
        if verified is None and recorded is not None:
            verified = unchanged.find_verification(self._spec, found, there, decision.target_key, recorded)
        if verified is None:
            return decision
        return Decision("skip", decision.target_key, verified=verified, target_etag=there.etag)

    def _compare_listed(self, found: ListedObject, there: ListedObject) -> str | None:
        """Verification by which two listed objects count as the same; None when they do not."""
        match self._spec.selection.if_exists:
            case "skip":
                return "none"
            case "size":
                return "size" if found.size == there.size else None
            case _:
                return equal_as_listed((found.size, found.etag), (there.size, there.etag))


def _has_plain_names(spec: ResolvedSpec, rules: KeyRules) -> bool:
    """True when no rule but those of S3 refuses a key without NUL: see ``refusal``, which knows all of them."""
    return not (
        isinstance(spec.source, LocalFolder)
        or isinstance(spec.target, LocalFolder)
        or spec.names.rename
        or spec.targets
        or "\0" in spec.target.key
        or rules.confined
        or _lists_same_store(spec)
    )


def decide_names(
    spec: ResolvedSpec,
    source_key: str,
    target_key: str,
    size: int,
    listed: tuple[str, str] | None = None,
    rules: KeyRules = NO_RULES,
) -> Decision:
    """Decides by its names and its size alone whether the object ``source_key`` can go to ``target_key``.

    For what is selected, or chosen by other rules (members of archives, versions). Arguments are those of ``refusal``.
    """
    refused = refusal(spec, source_key, target_key, size, listed, rules)
    return Decision("copy", target_key) if refused is None else refuse(target_key, *refused)


def refuse(target_key: str, code: str, reason: str) -> Decision:
    """Decision on an object that is not copied: some codes say that it is left out, which is no failure."""
    return Decision("leave_out" if code in paths.LEFT_OUT else "refuse", target_key, code, reason)


def leave_out(target_key: str, code: str, reason: str) -> Decision:
    """Decision on an object that is not copied, which is no failure."""
    return Decision("leave_out", target_key, code, reason)


def _decide_failed_lookup(spec: ResolvedSpec, found: FailedLookup, target_key: str) -> Decision:
    """Decision on a named object that is missing, or of which HEAD was denied."""
    if not is_key_selected(spec, found.key):
        return Decision("ignore", target_key)
    code, reason = found.refusal
    failure = found.failure
    return Decision("refuse", target_key, code, reason, error_class=failure.error_class, operation=failure.operation)


def missing_at_source(spec: ResolvedSpec, key: str, there: str) -> Decision:
    """Decision on the key ``there`` of the target that a comparison does not find at the source, under ``key``."""
    return refuse(there, MISSING_AT_SOURCE, f"{spec.source.at(key)} is not there, and {spec.target.at(there)} is.")


def upload_in_use(key: str) -> Decision:
    """Decision on an open upload that a clean-up does not abort."""
    return leave_out(key, "UploadInUse", "an unfinished transfer of ours goes on with it")


class PredictedAction(NamedTuple):
    """Action that listings of both sides predict for an object that can be copied, with the reason."""

    action: Literal["copy", "skip", "compare", "refuse"]
    because: str


_BECAUSE: Final = {"none": "it exists", "size": "equal sizes"}
"""Reasons of skips by their verification."""


def predict(spec: ResolvedSpec, size: int | None, decision: Decision, there: ListedObject | None) -> PredictedAction:
    """Predicts from listings the action for an object, for which ``decide`` has returned ``copy`` or ``skip``.

    Args:
        size: bytes of the object; None for an archive that is yet to be made.
        there: the object that a listing shows under the target key; None when nothing is there.
    """
    if decision.action == "skip":
        return PredictedAction("skip", _BECAUSE.get(decision.verified or "", "equal ETags"))
    if there is None or there.refusal is not None:
        return PredictedAction("copy", "absent")
    match spec.selection.if_exists:
        case "skip":
            return PredictedAction("skip", "it exists")
        case "fail":
            return PredictedAction("refuse", f"{spec.target.at(decision.target_key)} exists, and --if-exists is fail.")
        case "overwrite":
            return PredictedAction("copy", "it is overwritten")
        case "size" if size == there.size:
            return PredictedAction("skip", "equal sizes")
        case "same" | "size" if size is None:
            return PredictedAction("compare", "it exists; compared when it is done")
        case "same" | "size" if size != there.size:
            return PredictedAction("copy", "size differs")
        case "same" | "size":
            return PredictedAction("compare", "same size; compared when it is done")


def is_selected(spec: ResolvedSpec, found: SelectableObject) -> bool:
    """True when wildcard, rules, sizes and ages of the spec select an object of the source."""
    test = build_matcher(build_conditions(spec))
    return test is None or test(found.key, found.size, found.last_modified)


def is_key_selected(spec: ResolvedSpec, key: str) -> bool:
    """True when wildcard and rules select the key, whatever the size and the age of its object."""
    test = build_matcher(build_conditions(spec)._replace(filters=Filters()))
    return test is None or test(key, 0, 0.0)


def compares_listings(spec: ResolvedSpec) -> bool:
    """True when the listings of both sides are enough to skip an object: equal ETags or sizes, or that it is there.

    ETags of files are no digests.
    """
    match spec.selection.if_exists:
        case "size" | "skip":
            return True
        case "same":
            enough = spec.storage.verify == "auto" or (spec.storage.verify == "checksum" and spec.kind.compares)
            return enough and not is_local(spec)
        case _:
            return False


def is_left_out(spec: ResolvedSpec, source_key: str, size: int) -> bool:
    """True for the empty object whose key is the source prefix itself, when the target is the root of a bucket.

    Nothing of the key would be left, and there is nothing to copy.
    """
    return is_marker(spec, source_key, size) and target_key(spec, source_key) == ""


def is_marker(spec: ResolvedSpec, source_key: str, size: int) -> bool:
    """True for the empty object that a console makes for the source prefix itself, as for a "folder"."""
    return size == 0 and source_key == spec.strip


def refusal(
    spec: ResolvedSpec,
    source_key: str,
    target_key: str,
    size: int,
    listed: tuple[str, str] | None = None,
    rules: KeyRules = NO_RULES,
) -> tuple[str, str] | None:
    """Reason why the object ``source_key`` cannot go to ``target_key``, as code and message; None when it can.

    ``listed`` is why the listing says that it is no object, if so.
    """

    # Nearly all objects can be copied: what is said of the others is put into words for them only.
    def source() -> str:
        return spec.source.at(source_key)

    if not rules.nul and ("\0" in source_key or "\0" in target_key):
        return nul_refusal(source_key)
    if listed is not None:
        return listed[0], f"{source()}: {listed[1]}"
    own = rules.state_dir
    if own is not None and (is_own(spec.source, source_key, own) or is_own(spec.target, target_key, own)):
        return "StateFolder", f"{source()}: records of transfers, which change as this one goes on, are kept in {own}."
    if isinstance(spec.target, LocalFolder) and target_key != "":
        if (refused := path_refusal(target_key, size)) is None:
            return None
        return refused[0], f"{source()} cannot be a file in {spec.target.path}: {refused[1]}"
    if target_key == "":
        why = f"{source()} is the source prefix itself: no name is left for it in {spec.target.at('')}"
        return "EmptyTargetKey", _with_step(f"{why} (unlike in {spec.target.at('copy/')}).", "choose_prefix")
    if spec.names.rename and {".", ".."} & (set(target_key.split("/")) - set(source_key.split("/"))):
        why = f"{source()} would become {spec.target.at(target_key)}, and some storages take '.' and '..' for folders."
        return "DotSegment", _with_step(why, "change_renaming")
    # The storage may hold keys that are not UTF-8: they count as many bytes as they have.
    size = len(target_key.encode("utf-8", "surrogateescape"))
    if size > _MAX_KEY_BYTES:
        why = f"Its target key would have {size} bytes, and S3 allows {_MAX_KEY_BYTES}."
        return "TargetKeyTooLong", _with_step(why, "choose_shorter_prefix")
    if target_key.startswith(spec.source.key) and _lists_same_store(spec):
        target = spec.target.at(target_key)
        why = f"Its target {target} lies inside the source: copying it could overwrite another object of the source."
        return "TargetInsideSource", _with_step(why, "choose_target_outside")
    if rules.confined and not spec.kind.compares and not isinstance(spec.target, LocalFolder):
        return policy.find_refusal(spec.target, target_key)
    return None


def _with_step(why: str, step: str) -> str:
    return f"{why} {COMMAND_LINE.text(step)}"


def _lists_same_store(spec: ResolvedSpec) -> bool:
    """True when all below a prefix is copied within a bucket."""
    return spec.kind.copies and spec.keys is None and not spec.single and is_same_store(spec)


def is_own(place: Location, key: str, own: str) -> bool:
    """True when a key of this place is in the folder of our records."""
    within = _path_below(place.path, own) if isinstance(place, LocalFolder) else None
    return within is not None and key.startswith(within)


@lru_cache(maxsize=64)
def _path_below(folder: str, own: str) -> str | None:
    """``paths.path_below``, once for all keys: it follows links."""
    return paths.path_below(folder, own)


# --- members of archives ----------------------------------------------------------------------------------------------


class ListedMember(Protocol):
    """A member as the reader of an archive shows it. ``left_out``: its refusal is no failure."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def refusal(self) -> tuple[str, str] | None: ...
    @property
    def left_out(self) -> bool: ...


def member_key(spec: ResolvedSpec, path: str) -> str:
    """Key of a member in records and messages: ``archive.tar!/path``."""
    return f"{spec.source.key}!/{path}"


def decide_member(spec: ResolvedSpec, member: ListedMember, rules: KeyRules) -> Decision:
    """Decides on a wanted member of the archive ``spec.source``."""
    source_key = member_key(spec, member.path or member.name)
    to = spec.target.key + member.path
    if member.refusal is not None:
        code, cause = member.refusal
        reason = f"{spec.source.at(source_key)}: {cause}."
        return leave_out(to, code, reason) if member.left_out else Decision("refuse", to, code, reason)
    decision = decide_names(spec, source_key, to, member.size, None, rules)
    if decision.action == "copy" and to == spec.source.key and is_same_store(spec):
        why = f"{spec.target.at(to)} is the archive itself."
        return refuse(to, "TargetIsSource", _with_step(why, "choose_other_prefix"))
    return decision


def missing_member(spec: ResolvedSpec, name: str) -> Decision:
    """Decision on a name that no member of the archive has."""
    why = f"The archive {spec.source.uri} has no member '{name}'."
    return refuse(spec.target.key + name, "NoSuchMember", _with_step(why, "check_names"))


# --- versions ---------------------------------------------------------------------------------------------------------


ListedVersion = tuple[int, str]
"""Size and ETag of a version."""


def decide_versions(
    spec: ResolvedSpec, source_key: str, target_key: str, found: Sequence[ListedVersion], there: Sequence[ListedVersion]
) -> list[Decision]:
    """Decides on all versions of one object, whose names are no obstacle; both sides come oldest first.

    The versions of the target must be the first ones of the source. Otherwise all are refused.
    """
    verified = [verification_of_version(*both) for both in zip(found, there, strict=False)]
    if len(there) > len(found) or None in verified:
        why = f"{spec.target.at(target_key)} has versions that are not those of {spec.source.at(source_key)}."
        return [refuse(target_key, "OtherHistory", _with_step(why, "remove_versions"))] * len(found)
    skipped = [
        Decision("skip", target_key, verified=proof, target_etag=etag)
        for proof, (_, etag) in zip(verified, there, strict=True)
    ]
    return [*skipped, *[Decision("copy", target_key)] * (len(found) - len(there))]


def verification_of_version(found: ListedVersion, there: ListedVersion) -> str | None:
    """Verification that two versions at the same place of their histories are the same; None when they are not.

    The size alone has to do for ETags of objects in parts, which differ for other boundaries, and for equal ETags that
    are no digests.
    """
    if (verified := equal_as_listed(found, there)) is not None:
        return verified
    in_parts = "-" in found[1] or "-" in there[1]
    return "size" if found[0] == there[0] and (found[1] == there[1] or in_parts) else None


def too_many_versions(spec: ResolvedSpec, source_key: str, target_key: str, found: int) -> Decision | None:
    """Decision on an object with more versions than one batch takes; None when they are few enough."""
    if found <= MAX_VERSIONS:
        return None
    why = f"{spec.source.at(source_key)} has {found:,} versions, and at most {MAX_VERSIONS:,} can be copied."
    return refuse(target_key, "TooManyVersions", why)


def delete_marker(spec: ResolvedSpec, source_key: str, target_key: str) -> Decision:
    """Decision on a delete marker among the versions of an object."""
    why = f"{spec.source.at(source_key)}: a delete marker holds no bytes, and is not carried."
    return leave_out(target_key, "DeleteMarker", why)
