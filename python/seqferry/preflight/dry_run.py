"""Dry runs: the action for each object of a transfer, and the keys that it would remove. Nothing is changed.

The service calls it for the command line and the HTTP API. ``decision`` and ``removal_rules`` decide.

Invariant: memory is bounded by a page, except for shards of an archive, which are planned as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from typing import Final

from seqferry.engine.engine import Engine, FailedLookup, Listed, ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import PlannedCopy, ResolvedSpec
from seqferry.places import paths
from seqferry.planning import collisions, decision, listing, members, removal_rules, unpacking, versions
from seqferry.planning.decision import Decision, KeyRules, PredictedAction
from seqferry.planning.members import Member
from seqferry.planning.removal_rules import RemovalRefusal
from seqferry.planning.versions import VersionDecision
from seqferry.preflight import start
from seqferry.preflight.inspection import Inspected, Inspection
from seqferry.preflight.report import PreflightReport
from seqferry.spec import pack

_ABSENT: Final = PredictedAction("copy", "absent")


def plan_copies(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, findings: PreflightReport | None = None
) -> Iterator[PlannedCopy]:
    """Planned copies of a transfer, object by object, in no order.

    Args:
        findings: gets the refusal of the target and the number of objects that were read; None: skip these checks.

    Raises:
        UsageError, StorageError: a named object is not there, or a place cannot be used.
    """
    start.check_buckets(engine, spec)
    if findings is None:
        yield from _plan(engine, spec, rules, None)
        return
    with Inspection(engine, spec, findings) as inspection:
        yield from _plan(engine, spec, rules, inspection)
        inspection.finish()


def _plan(engine: Engine, spec: ResolvedSpec, rules: KeyRules, inspection: Inspection | None) -> Iterator[PlannedCopy]:
    if spec.kind.unpacks:
        yield from _plan_unpacking(engine, spec, rules, inspection)
    elif spec.kind.packs:
        yield from _plan_packing(engine, spec, rules, inspection)
    elif spec.kind.copies_versions:
        for page in versions.decide_histories(engine, spec, rules):
            decided = [one for group in page for one in group]
            yield from _check_readable([one.version for one in decided], [_version(one) for one in decided], inspection)
    else:
        yield from _plan_copies(engine, spec, rules, inspection)


def _check_readable(
    infos: Sequence[Inspected], planned: list[PlannedCopy], inspection: Inspection | None
) -> list[PlannedCopy]:
    """The same, with a refusal for each object that would be copied or compared and cannot be read."""
    if inspection is None:
        return planned
    wanted = [number for number, one in enumerate(planned) if one.refusal is None and one.action != "skip"]
    failures = inspection.check([(infos[number], planned[number].target_key) for number in wanted])
    for number, failure in zip(wanted, failures, strict=True):
        if failure is not None:
            code, operation, message = failure
            planned[number] = replace(planned[number], refusal=message, code=code, operation=operation)
    return planned


def plan_removals(
    engine: Engine, spec: ResolvedSpec, own: str, *, objects: int, failed: int
) -> Iterator[str | RemovalRefusal]:
    """Keys that a transfer of so many objects would remove at the target after all has arrived, or why it would not.

    As in the transfer, with ``max_delete`` the target is listed twice: keys are counted first, and not held in memory.

    Args:
        own: the folder of our records.
        failed: objects that are refused.
    """
    if not spec.removal.delete:
        return
    if (kept := removal_rules.refuse_incomplete_source(spec, objects, failed)) is not None:
        yield kept
        return
    if spec.removal.max_delete is not None:
        found = 0
        for keys in listing.find_extras(engine, spec, own):
            found += len(keys)
            if (kept := removal_rules.refuse_over_max_delete(spec, found)) is not None:
                yield kept
                return
    refused: list[str] = []
    for keys in listing.find_extras(engine, spec, own, refused=refused):
        yield from sorted(keys)
    if (kept := removal_rules.refuse_unseen_folders(refused)) is not None:
        yield kept


def _plan_copies(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, inspection: Inspection | None
) -> Iterator[PlannedCopy]:
    found = (
        _check_readable([info for info, _, _ in page], [_plan_listed(engine, spec, *one) for one in page], inspection)
        for page in listing.predict_listed(engine, spec, rules)
    )
    if collisions.are_possible(spec):
        found = collisions.Spool(spec, _names, astuple, lambda values: PlannedCopy(*values)).unique(found)
    for page in found:
        yield from page


def _plan_listed(
    engine: Engine, spec: ResolvedSpec, info: Listed, decided: Decision, seen: PredictedAction | None
) -> PlannedCopy:
    if spec.single and isinstance(info, FailedLookup):
        raise start.missing_error(engine, spec) if info.is_absent else info.failure
    return _planned_copy(info.key, info.size, decided, seen)


def _names(planned: PlannedCopy) -> tuple[str, str, str | None]:
    is_copied = planned.refusal is None or planned.operation != "plan"  # what may not be read may be allowed later
    return planned.source_key, "", planned.target_key if is_copied else None


def _plan_unpacking(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, inspection: Inspection | None
) -> Iterator[PlannedCopy]:
    """The members of an archive, each with what is at its target."""
    for page in unpacking.decide_members(engine, spec, rules):
        copied = [one.decision.target_key for _, one in page if one.decision.action == "copy"]
        there = listing.find_at_keys(engine, spec, copied)
        if copied and inspection is not None:
            inspection.note_members(copied)
        for member, (source_key, decided) in page:
            size = 0 if member is None else member.size
            seen = None
            if decided.action == "copy":
                seen = decision.predict(spec, size, decided, there.get(decided.target_key))
            yield _planned_copy(source_key, size, decided, seen)


def _plan_packing(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, inspection: Inspection | None
) -> Iterator[PlannedCopy]:
    """The members of archives that are made, each with what is at the key of its archive."""
    if pack.SPLIT in spec.options:
        yield from _plan_shards(engine, spec, rules, inspection)
        return
    [seen] = _predict_archives(engine, spec, [spec.target.key])
    for page in members.members(engine, spec, rules):
        planned = [_member(spec, one, spec.target.key, seen) for one in page]
        yield from _check_readable([one.found for one in page], planned, inspection)


def _plan_shards(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, inspection: Inspection | None
) -> Iterator[PlannedCopy]:
    found: list[Member] = []
    for page in members.members(engine, spec, rules):
        found += [one for one in page if one.left_out is None]
        yield from (_member(spec, one, spec.target.key, _ABSENT) for one in page if one.left_out is not None)
    found.sort(key=lambda one: members.order(one.found.key))
    ends = members.shard_ends(spec, [one.found.key for one in found], [one.found.size for one in found])
    keys = [pack.shard_key(spec, number) for number in range(len(ends))]
    members.refuse_later_shards(engine, spec, len(keys))
    first = 0
    for key, end, seen in zip(keys, ends, _predict_archives(engine, spec, keys), strict=True):
        planned = [_member(spec, one, key, seen) for one in found[first:end]]
        yield from _check_readable([one.found for one in found[first:end]], planned, inspection)
        first = end


def _predict_archives(engine: Engine, spec: ResolvedSpec, keys: Sequence[str]) -> Iterator[PredictedAction]:
    """The predicted action for the archive at each key. Its size and its digest are known when it is made."""
    for first in range(0, len(keys), listing.HEAD_PAGE):
        page = list(keys[first : first + listing.HEAD_PAGE])
        for key, there in zip(page, _find_archives(engine, spec, page), strict=True):
            yield decision.predict(spec, None, Decision("copy", key), there)


def _find_archives(engine: Engine, spec: ResolvedSpec, keys: list[str]) -> list[ObjectInfo | None]:
    if isinstance(spec.target, LocalFolder) and paths.is_absent(spec.target.path):
        return [None] * len(keys)
    try:
        return engine.head(spec.target, keys)
    except StorageError as why:
        # Write-only access: the archive is written without HEAD.
        if not (why.is_denied and spec.selection.if_exists == "overwrite"):
            raise
        return [None] * len(keys)


def _planned_copy(source_key: str, size: int, decided: Decision, seen: PredictedAction | None) -> PlannedCopy:
    if seen is None:
        refusal = PlannedCopy(source_key, decided.target_key, size, decided.reason, decided.is_left_out)
        return replace(refusal, code=decided.code or "", operation=decided.operation)
    if seen.action == "refuse":
        return PlannedCopy(source_key, decided.target_key, size, seen.because, code="TargetExists")
    return PlannedCopy(source_key, decided.target_key, size, action=seen.action, because=seen.because)


def _member(spec: ResolvedSpec, member: Member, target_key: str, seen: PredictedAction) -> PlannedCopy:
    found = member.found
    if member.left_out is not None:
        return PlannedCopy(found.key, target_key, found.size, member.left_out[1], left_out=True)
    planned = _planned_copy(found.key, found.size, Decision("copy", target_key), seen)
    if seen == _ABSENT:
        planned = replace(planned, because="packed", detail=f"as {found.key.removeprefix(spec.strip)}")
    return planned


def _version(one: VersionDecision) -> PlannedCopy:
    found, decided = one.version, one.decision
    return PlannedCopy(
        found.key,
        decided.target_key,
        found.size,
        decided.reason,
        decided.is_left_out,
        action="skip" if decided.action == "skip" else "copy",
        because="version",
        detail=found.version_id or "null",
        code=decided.code or "",
        operation=decided.operation,
    )
