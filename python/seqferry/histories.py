"""Selection and order of the versions that ``--all-versions`` copies.

What must stay true: the versions of an object are copied oldest first, none after one that has failed, and none that is
there already: what the target has of an object must be the start of what the source has, or nothing of it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from seqferry import buckets, planning
from seqferry.buckets import FoundVersion, ObjectVersion
from seqferry.engine import Engine
from seqferry.errors import StorageError
from seqferry.models import TransferSpec
from seqferry.naming import target_key
from seqferry.planning import Decision

MOST: Final = 1000
"""Versions of one object: they make one batch."""

MOST_IN_ALL: Final = 500_000
"""Versions of one transfer, which are planned as a whole."""

_AT_ONCE: Final = 32
_MARKER: Final = ("DeleteMarker", "a delete marker holds no bytes, and is not carried")


class Fate(NamedTuple):
    """Decision on one version: to copy it, to refuse it, to leave it out, or to find it there already.

    Attributes:
        decision: ``copy`` also where the target has the version already.
        there: the target has it already.
    """

    version: FoundVersion
    decision: Decision
    there: bool = False


def fates(engine: Engine, spec: TransferSpec, own: str) -> Iterator[list[list[Fate]]]:
    """Pages of objects, each with the fates of its versions, oldest first.

    Raises:
        StorageError: a listing failed.
    """
    seen = 0

    def of_object(versions: list[ObjectVersion]) -> list[Fate]:
        return _of_object(engine, spec, versions, own)

    with ThreadPoolExecutor(_AT_ONCE, "seqferry-histories") as pool:
        for page in _objects(engine, spec):
            seen += sum(map(len, page))
            if seen > MOST_IN_ALL:
                why = f"{spec.source.uri} has more than {MOST_IN_ALL:,} versions. Copy prefixes of it, one by one."
                raise StorageError(why, "object", "TooManyVersions", "plan", True)
            yield list(pool.map(of_object, page))


def _objects(engine: Engine, spec: TransferSpec) -> Iterator[list[list[ObjectVersion]]]:
    """Pages of selected objects with their versions, oldest first; an object is whole on its page."""
    left: list[ObjectVersion] = []
    for page in buckets.versions(engine, spec.source):
        groups = [list(group) for _, group in groupby([*left, *page], key=lambda one: one.key)]
        left = groups.pop() if groups else []
        yield [found for group in groups if (found := _selected(spec, group))]
    yield [found] if (found := _selected(spec, left)) else []


def _selected(spec: TransferSpec, group: list[ObjectVersion]) -> list[ObjectVersion]:
    if not group or (spec.single and group[0].key != spec.source.key):
        return []
    return group[::-1] if planning.is_selected(spec, _found(group[0])) else []


def _found(one: ObjectVersion, refusal: tuple[str, str] | None = None) -> FoundVersion:
    return FoundVersion(
        one.key, one.size, one.etag, one.last_modified, one.version_id, one.storage_class, refusal=refusal
    )


def _of_object(engine: Engine, spec: TransferSpec, versions: Sequence[ObjectVersion], own: str) -> list[Fate]:
    key = versions[0].key
    to = target_key(spec, key)
    decision = planning.decide_names(spec, key, to, versions[0].size, None, own)
    copied = [one for one in versions if not one.is_delete_marker]
    there: list[ObjectVersion] = []
    if len(copied) > MOST:
        why = f"{spec.source.at(key)} has {len(copied):,} versions, and at most {MOST:,} can be copied."
        decision = planning.refuse(to, "TooManyVersions", why)
    elif decision.action == "copy":
        there = at_target(engine, spec, to)
        if not continues([(one.size, one.etag) for one in copied], [(one.size, one.etag) for one in there]):
            why = f"{spec.target.at(to)} has versions that are not those of {spec.source.at(key)}."
            why = f"{why} Choose another target, or remove them: seqferry rm --all-versions."
            decision = planning.refuse(to, "OtherHistory", why)
    fates: list[Fate] = []
    position = 0
    for one in versions:
        if one.is_delete_marker:
            fates.append(Fate(_found(one), planning.refuse(to, _MARKER[0], f"{spec.source.at(key)}: {_MARKER[1]}.")))
        else:
            fates.append(Fate(_found(one), decision, there=position < len(there)))
            position += 1
    return fates


def at_target(engine: Engine, spec: TransferSpec, key: str) -> list[ObjectVersion]:
    """The versions under this key of the target, oldest first, without delete markers."""
    place = replace(spec.target, key=key)
    found = [one for page in buckets.versions(engine, place) for one in page if one.key == key]
    return [one for one in reversed(found) if not one.is_delete_marker]


def continues(source: Sequence[tuple[int, str]], target: Sequence[tuple[int, str]]) -> bool:
    """True when the versions (size, ETag) of the target are the first ones of the source."""
    return len(target) <= len(source) and all(map(is_same, source, target))


def is_same(one: tuple[int, str], other: tuple[int, str]) -> bool:
    """True when two versions can be the same: ETags of objects in parts may differ for other boundaries."""
    in_parts = "-" in one[1] or "-" in other[1]
    return one[0] == other[0] and (one[1] == other[1] or in_parts)
