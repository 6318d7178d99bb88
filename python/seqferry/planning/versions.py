"""Selection and order of the versions that ``--all-versions`` copies.

Invariant: the versions of an object are copied oldest first, none after a failed one, and none that the target has. The
versions at the target must be the oldest ones of the source, or no version of the object is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from seqferry.engine import buckets
from seqferry.engine.buckets import FoundVersion, ObjectVersion
from seqferry.engine.engine import Engine
from seqferry.model.errors import StorageError
from seqferry.model.models import ResolvedSpec
from seqferry.planning import decision
from seqferry.planning.decision import Decision, KeyRules
from seqferry.spec.target_keys import target_key

MAX_TOTAL_VERSIONS: Final = 500_000
"""Versions of one transfer, which are planned as a whole."""

_MAX_LISTINGS: Final = 32


class VersionDecision(NamedTuple):
    """Decision on one version: to copy it, to skip it as the target has it, to refuse it, or to leave it out."""

    version: FoundVersion
    decision: Decision


def decide_histories(engine: Engine, spec: ResolvedSpec, rules: KeyRules) -> Iterator[list[list[VersionDecision]]]:
    """Pages of objects, each with the decisions of its versions, oldest first.

    Raises:
        StorageError: a listing failed.
    """
    seen = 0

    def decide_object(versions: list[ObjectVersion]) -> list[VersionDecision]:
        return _decide_object(engine, spec, versions, rules)

    with ThreadPoolExecutor(_MAX_LISTINGS, "seqferry-histories") as pool:
        for page in _objects(engine, spec):
            seen += sum(map(len, page))
            if seen > MAX_TOTAL_VERSIONS:
                why = (
                    f"{spec.source.uri} has more than {MAX_TOTAL_VERSIONS:,} versions. Copy prefixes of it, one by one."
                )
                raise StorageError(why, "object", "TooManyVersions", "plan", True)
            yield list(pool.map(decide_object, page))


def _objects(engine: Engine, spec: ResolvedSpec) -> Iterator[list[list[ObjectVersion]]]:
    """Pages of selected objects with their versions, oldest first; an object is whole on its page."""
    left: list[ObjectVersion] = []
    for page in buckets.list_versions(engine, spec.source):
        groups = [list(group) for _, group in groupby([*left, *page], key=lambda one: one.key)]
        left = groups.pop() if groups else []
        yield [found for group in groups if (found := _select(spec, group))]
    yield [found] if (found := _select(spec, left)) else []


def _select(spec: ResolvedSpec, group: list[ObjectVersion]) -> list[ObjectVersion]:
    if not group or (spec.single and group[0].key != spec.source.key):
        return []
    return group[::-1] if decision.is_selected(spec, _found_version(group[0])) else []


def _found_version(one: ObjectVersion, refusal: tuple[str, str] | None = None) -> FoundVersion:
    return FoundVersion(
        one.key, one.size, one.etag, one.last_modified, one.version_id, one.storage_class, refusal=refusal
    )


def _decide_object(
    engine: Engine, spec: ResolvedSpec, versions: Sequence[ObjectVersion], rules: KeyRules
) -> list[VersionDecision]:
    key = versions[0].key
    to = target_key(spec, key)
    copied = [(one.size, one.etag) for one in versions if not one.is_delete_marker]
    refused = decision.too_many_versions(spec, key, to, len(copied))
    decided = refused or decision.decide_names(spec, key, to, versions[0].size, None, rules)
    decisions = [decided] * len(copied)
    if decided.action == "copy":
        there = [(one.size, one.etag) for one in list_target_versions(engine, spec, to)]
        decisions = decision.decide_versions(spec, key, to, copied, there)
    left = iter(decisions)
    marker = decision.delete_marker(spec, key, to)
    return [VersionDecision(_found_version(one), marker if one.is_delete_marker else next(left)) for one in versions]


def list_target_versions(engine: Engine, spec: ResolvedSpec, key: str) -> list[ObjectVersion]:
    """The versions under this key of the target, oldest first, without delete markers."""
    place = replace(spec.target, key=key)
    found = [one for page in buckets.list_versions(engine, place) for one in page if one.key == key]
    return [one for one in reversed(found) if not one.is_delete_marker]
