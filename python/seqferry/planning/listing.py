"""The objects of a transfer, listed or looked up in the storage as a stream of pages in bounded memory.

``planning.decision`` decides the action for each.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from seqferry.engine import buckets
from seqferry.engine.engine import Engine, FailedLookup, Listed, ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths
from seqferry.planning import decision, removal_rules, unchanged
from seqferry.planning.decision import NO_RULES, Decision, KeyRules, PredictedAction
from seqferry.spec import source_ranges
from seqferry.spec.target_keys import target_key

if TYPE_CHECKING:
    from seqferry.db.earlier_objects import EarlierObject

log: Final = logging.getLogger("seqferry.listing")

HEAD_PAGE: Final = 1000
"""Objects that are looked up (HEAD) together."""
_NAMED_AT_MOST: Final = 20
_TARGET_PAGES: Final = 4
"""Listing requests for the target keys of one page. If more would be needed, HEAD of each object costs no more."""
_DENIED_PAGES: Final = 16
"""Listing requests for the sizes of objects of one page of which HEAD is denied. Other sizes stay unknown."""


Recall = Callable[[Sequence[str]], Mapping[str, "EarlierObject"]]
"""Reads the objects with these keys of the source from the record of an earlier transfer."""


@frozen
class KnownObjects:
    """Findings of the checks before the start, so that a transfer which begins immediately repeats no request.

    Attributes:
        found: the one object of a source; None if there are more, or if it was not looked up.
        target_absent: True when nothing is at the target; None when that was not looked up.
        at_target: the object at the target of a single object.
        pages: the listing of the source, begun but not read; None where it was not begun.
    """

    found: tuple[ObjectInfo, ...] | None = None
    target_absent: bool | None = None
    at_target: ObjectInfo | None = None
    pages: Iterator[list[ObjectInfo]] | None = None


def decide_listed(
    engine: Engine,
    spec: ResolvedSpec,
    rules: KeyRules = NO_RULES,
    *,
    compare: bool = False,
    known: KnownObjects | None = None,
    recalls: Sequence[Recall] = (),
) -> Iterator[list[tuple[Listed, Decision]]]:
    """Pages of the objects of ``list_objects``, each with the decision on it.

    With ``compare`` the target is listed beside, where that may be enough to skip an object: by itself, or with the
    records of earlier transfers (``recalls``), of which the first is asked first.
    """
    for part, pages in _sources(engine, spec, rules, known):
        yield from _decide(engine, part, pages, rules, compare=compare, known=known, recalls=recalls)


def _decide(
    engine: Engine,
    spec: ResolvedSpec,
    pages: Iterator[Sequence[Listed]],
    rules: KeyRules,
    *,
    compare: bool,
    known: KnownObjects | None,
    recalls: Sequence[Recall],
) -> Iterator[list[tuple[Listed, Decision]]]:
    """``decide_listed`` for one source."""
    compares = compare and decision.compares_listings(spec)
    remembers = unchanged.may_decide(spec)
    # A file of the target is looked up in any case: its ctime goes on record.
    looks_at_all = compares or (compare and remembers and isinstance(spec.target, LocalFolder))
    looked = spec.single and known is not None and known.target_absent is not None
    decide = decision.Decider(spec, rules).decide
    for page in pages:
        there: dict[str, ObjectInfo] = {}
        if looked and known is not None and known.at_target is not None:
            there = {known.at_target.key: known.at_target} if compare else {}
        elif looks_at_all and page and not looked:
            there = _at_target(engine, spec, page)
        if there:
            found = [(info, decide(info, there.get(_target(spec, info)))) for info in page]
        else:
            found = [(info, decide(info)) for info in page]
        if remembers:
            now = time.time()
            changes = _find_changes(spec, page, there)
            if compare and recalls:
                look = None if looks_at_all or looked else partial(_at_target, engine, spec)
                _decide_by_record(found, there, changes, decide, recalls, look)
            _keep_changes(found, changes, now)
        kept = [one for one in found if one[1].action != "ignore"]
        if len(kept) < len(found) and log.isEnabledFor(logging.DEBUG):
            for info, decided in found:
                if decided.action == "ignore":
                    log.debug("left out %s: it is not selected, or no name is left for it", spec.source.at(info.key))
        yield kept


def _decide_by_record(
    found: list[tuple[Listed, Decision]],
    there: dict[str, ObjectInfo],
    changes: Mapping[str, float],
    decide: Callable[[Listed, ObjectInfo | None, unchanged.Recorded | None], Decision],
    recalls: Sequence[Recall],
    look: Callable[[Sequence[Listed]], dict[str, ObjectInfo]] | None,
) -> None:
    """Decide again on the objects of a page that would be copied, by the records of earlier transfers in turn.

    Args:
        there: the objects at the target that are known. ``look`` finds further ones; None: these are all.
    """
    seen: set[str] = set()
    for recall in recalls:
        left = [number for number, (_, decided) in enumerate(found) if decided.action == "copy"]
        if not left:
            return
        earlier = recall([found[number][0].key for number in left])
        left = [number for number in left if found[number][0].key in earlier]
        if look is not None and (fresh := [found[number][0] for number in left if found[number][0].key not in seen]):
            there |= look(fresh)
            seen.update(info.key for info in fresh)
        for number in left:
            info, before = found[number]
            recorded = unchanged.Recorded(earlier[info.key], changes.get(info.key))
            found[number] = info, decide(info, there.get(before.target_key), recorded)


def _keep_changes(found: list[tuple[Listed, Decision]], changes: Mapping[str, float], now: float) -> None:
    """Put last changes of files on record that no later change can have. ``now``: before they were read."""
    for number, (info, decided) in enumerate(found):
        changed = changes.get(info.key)
        if changed is not None and (kept := unchanged.settled(changed, now)) is not None:
            found[number] = info, decided._replace(file_changed=kept)


def _find_changes(spec: ResolvedSpec, page: Sequence[Listed], there: Mapping[str, ObjectInfo]) -> dict[str, float]:
    """Last changes (ctime) of the files of a page, at the source or at the target, by the key of the source."""
    if isinstance(spec.source, LocalFolder):
        return {info.key: at for info in page if (at := paths.changed_at(spec.source.path, info.key)) is not None}
    if isinstance(spec.target, LocalFolder) and there:
        of_target = ((info.key, _target(spec, info)) for info in page)
        seen = ((key, paths.changed_at(spec.target.path, to)) for key, to in of_target if to in there)
        return {key: at for key, at in seen if at is not None}
    return {}


def _sources(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, known: KnownObjects | None = None
) -> Iterator[tuple[ResolvedSpec, Iterator[Sequence[Listed]]]]:
    """Each source of a transfer with its objects. Single objects among several sources are looked up together."""
    if known is not None and known.found is not None:
        yield spec, iter([[*known.found]])
        return
    if known is not None and known.pages is not None:
        yield spec, known.pages
        return
    singles: list[ResolvedSpec] = []
    for part in source_ranges.split_sources(spec):
        if not (spec.ranges and part.single):
            yield part, list_objects(engine, part, rules.state_dir, rules.manifest_read)
            continue
        singles.append(part)
        if len(singles) == HEAD_PAGE:
            yield from _look_up(engine, singles)
            singles = []
    yield from _look_up(engine, singles)


def _look_up(
    engine: Engine, singles: Sequence[ResolvedSpec]
) -> Iterator[tuple[ResolvedSpec, Iterator[Sequence[Listed]]]]:
    """Each of these single objects, which are in one bucket or folder."""
    if not singles:
        return
    found = look_up(engine, singles[0].source, [one.source.key for one in singles])
    for part, info in zip(singles, found, strict=True):
        yield part, iter([[info]])


def predict_listed(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules
) -> Iterator[list[tuple[Listed, Decision, PredictedAction | None]]]:
    """Pages as ``decide_listed``, each with what the transfer would do; None where it is not copied at all."""
    for part, pages in _sources(engine, spec, rules):
        yield from _predict_pages(engine, part, pages, rules)


def _predict_pages(
    engine: Engine, spec: ResolvedSpec, pages: Iterator[Sequence[Listed]], rules: KeyRules
) -> Iterator[list[tuple[Listed, Decision, PredictedAction | None]]]:
    """``predict_listed`` for one source."""
    compares = decision.compares_listings(spec)
    decide = decision.Decider(spec, rules).decide
    for page in pages:
        failed = [info for info in page if isinstance(info, FailedLookup)]
        selected = [info for info in page if not isinstance(info, FailedLookup) and decision.is_selected(spec, info)]
        there = find_at_keys(engine, spec, [_target(spec, info) for info in selected])
        found: list[tuple[Listed, Decision, PredictedAction | None]] = []
        for info in [*selected, *failed]:
            at = there.get(_target(spec, info))
            decided = decide(info, at if compares else None)
            if decided.action in ("copy", "skip"):
                found.append((info, decided, decision.predict(spec, info.size, decided, at)))
            elif decided.action != "ignore":
                found.append((info, decided, None))
        yield found


def find_at_keys(engine: Engine, spec: ResolvedSpec, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """Objects under these keys of the target, by key: listed where few requests suffice, and else looked up."""
    if not keys:
        return {}
    found: dict[str, ObjectInfo] = {}
    ended = False
    if isinstance(spec.target, LocalFolder):
        ended = paths.is_absent(spec.target.path)
    else:
        found, ended = _find_at_target(engine, spec, keys)
    if ended:
        return found
    for chunk in _chunks(list(dict.fromkeys(key for key in keys if key and key not in found))):
        found |= {info.key: info for info in engine.head(spec.target, chunk) if info is not None}
    return found


def _at_target(engine: Engine, spec: ResolvedSpec, page: Sequence[Listed]) -> dict[str, ObjectInfo]:
    """Objects that listings show at the targets of a page, by key, in a few requests; files are looked up one by one.

    An object that they do not show, whatever the order or the refusal of the service, is looked up when it is copied.
    """
    keys = [_target(spec, info) for info in page]
    if not isinstance(spec.target, LocalFolder):
        return _find_at_target(engine, spec, keys)[0]
    try:
        return find_at_keys(engine, spec, keys)
    except StorageError as why:
        log.info("files at %s are looked up when they are copied: %s", spec.target.uri, why)
        return {}


def _find_at_target(engine: Engine, spec: ResolvedSpec, at: Sequence[str]) -> tuple[dict[str, ObjectInfo], bool]:
    """Objects that listings show under these keys of the target; True when no other ones of them are there."""
    keys = sorted(at, key=_in_bytes)
    wanted, last, after = set(keys), _in_bytes(keys[-1]), _before(keys[0], spec.target.key)
    found: dict[str, ObjectInfo] = {}
    for _ in range(_TARGET_PAGES):
        try:
            listed, ended = engine.list_after(spec.target, after)
        except StorageError as why:
            log.info("objects at %s are looked up one by one: %s", spec.target.uri, why)
            break
        found |= {info.key: info for info in listed if info.key in wanted}
        if ended or (listed and _in_bytes(listed[-1].key) >= last):
            return found, True
        if not listed or listed[-1].key == after:
            break
        after = listed[-1].key
    return found, False


def _before(key: str, prefix: str) -> str:
    """A text shortly before ``key`` in the order of keys, and not before all with the prefix; empty for the first."""
    if len(key) <= len(prefix):
        return ""
    head, end = key[:-1], ord(key[-1])
    # Printable ASCII, so that it is valid wherever keys are.
    return f"{head}{chr(end - 1)}~" if 0x21 <= end <= 0x7E else head


def _target(spec: ResolvedSpec, info: Listed) -> str:
    return target_key(spec, info.key, info.version_id)


def _in_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def list_objects(
    engine: Engine,
    spec: ResolvedSpec,
    own: str | None = None,
    manifest_read: Callable[[str], None] | None = None,
) -> Iterator[Sequence[Listed]]:
    """Pages of the objects that the spec names or lists, in no order, in bounded memory; empty pages while waiting.

    A named object that is absent or cannot be looked up is a ``FailedLookup`` of its page.

    Raises:
        StorageError: the listing failed, or no named object can be looked up.
    """
    if spec.inventory is not None:
        from seqferry.planning import inventory

        yield from inventory.list_objects(engine, spec, own, manifest_read)
        return
    if spec.keys is None and not spec.single:
        yield from engine.list(spec.source)
        return
    if spec.versions:
        yield from _versions(engine, spec)
        return
    for keys in _chunks(_keys_of(spec)):
        yield look_up(engine, spec.source, keys)


def look_up(engine: Engine, place: Location, keys: list[str]) -> list[Listed]:
    """Each of these objects, also those that are absent or refused.

    If HEAD is denied and listing is allowed, size and time are those of the listing.

    Raises:
        StorageError: as ``Engine.head_each``.
    """
    found = engine.head_each(place, keys)
    denied = [info.key for info in found if isinstance(info, FailedLookup) and info.failure.is_denied]
    if not denied or isinstance(place, LocalFolder):
        return found
    listed = _find_in_listing(engine, place, denied)
    return [
        replace(info, size=at.size, etag=at.etag, last_modified=at.last_modified, storage_class=at.storage_class)
        if isinstance(info, FailedLookup) and (at := listed.get(info.key)) is not None
        else info
        for info in found
    ]


def _find_in_listing(engine: Engine, place: S3Location, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """Those of these keys that a few pages of a listing show."""
    place = replace(place, key=os.path.commonprefix(keys))  # noqa: RUF071 - of keys, not of paths
    left, found = sorted(set(keys), key=_in_bytes), dict[str, ObjectInfo]()
    for _ in range(_DENIED_PAGES):
        try:
            listed, ended = engine.list_after(place, _before(left[0], place.key))
        except StorageError as why:
            log.info("sizes of objects stay unknown, since HEAD is denied and listing failed: %s", why)
            break
        wanted = set(left)
        found |= {info.key: info for info in listed if info.key in wanted}
        last = _in_bytes(listed[-1].key) if listed else b""
        left = [key for key in left[1:] if _in_bytes(key) > last and key not in found]
        if ended or not left:
            break
    return found


def target_is_empty(engine: Engine, spec: ResolvedSpec) -> bool:
    """True when nothing is under the target prefix, so that no object needs to be looked for there.

    False as well where the credentials may not list the target.
    """
    pages = engine.list(spec.target, limit=1)
    try:
        return not any(pages)
    except StorageError as why:
        if not why.is_denied:
            raise
        return False
    finally:
        # A generator that is not read to its end is closed, which closes the listing.
        close = getattr(pages, "close", None)
        if close is not None:
            close()


def find_extras(
    engine: Engine,
    spec: ResolvedSpec,
    own: str,
    unknown: Callable[[list[str]], list[str]] = lambda keys: keys,
    refused: list[str] | None = None,
) -> Iterator[dict[str, str]]:
    """Pages of the keys below the target prefix that the source does not have (HEAD), with their ETags.

    On a disk these are files (and links, where links are kept), none that a link leads to, and none in ``own``, the
    state folder. ``unknown`` selects the source keys to look up, without those that were just copied. ``refused`` gets
    some of the names that could not be read.
    """
    target = spec.target
    if isinstance(target, LocalFolder) and target.symlinks == "follow":
        target = replace(target, symlinks="skip")
    for page in engine.list(target):
        there = {
            key: (info.key, info.etag)
            for info in page
            if (key := removal_rules.removable_key(spec, info, own)) is not None
        }
        if refused is not None and len(refused) < _NAMED_AT_MOST:
            refused += [spec.target.at(info.key) for info in page if removal_rules.hides_objects(info)]
        # What has come to the source since it was listed is not gone from it.
        for keys in _chunks(unknown(list(there))):
            found = engine.head(spec.source, keys)
            yield dict(there[key] for key, info in zip(keys, found, strict=True) if info is None)


def _versions(engine: Engine, spec: ResolvedSpec) -> Iterator[Sequence[Listed]]:
    named = list(zip(_keys_of(spec), spec.versions, strict=True))
    for start in range(0, len(named), HEAD_PAGE):
        page = named[start : start + HEAD_PAGE]
        current = [key for key, version in page if not version]
        found: dict[tuple[str, str], Any] = {}
        found |= {(key, ""): info for key, info in zip(current, look_up(engine, spec.source, current), strict=True)}
        earlier = [one for one in page if one[1]]
        found |= dict(zip(earlier, buckets.look_up_versions(engine, spec.source, earlier), strict=True))
        yield [found[one] for one in page]


def _keys_of(spec: ResolvedSpec) -> list[str]:
    if spec.keys is None:
        return [spec.source.key]
    return [spec.source.key + key for key in spec.keys]


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), HEAD_PAGE):
        yield keys[start : start + HEAD_PAGE]
