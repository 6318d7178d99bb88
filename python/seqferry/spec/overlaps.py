"""Overlaps of commands that are done side by side: one reads or removes what another writes.

Keys are compared as they are written in the commands: exact keys, everything below a prefix, and wildcards. Files are
compared by what their paths lead to (device and inode of each folder), whatever their spelling.

What must stay true: an overlap that could be is reported. Two wildcards count as disjoint only where their literal
starts or ends differ.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location
from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Filters
from seqferry.places import endpoints
from seqferry.spec.selection import build_conditions, build_matcher, literal_prefix
from seqferry.spec.target_keys import target_key

Act = Literal["reads", "writes", "removes"]

_AGAINST: Final[dict[Act, tuple[Act, ...]]] = {
    "reads": ("writes", "removes"),
    "writes": ("reads", "removes", "writes"),
    "removes": ("reads", "writes"),
}
"""Acts that may not meet. A move reads its source: it removes that when all lines have ended."""

_AGAINST_WIDE: Final[dict[Act, tuple[Act, ...]]] = {**_AGAINST, "writes": ("reads", "removes")}
"""The same where one of both is more than one key: two commands may write below one prefix, under different names."""

_RANK: Final[dict[Act, int]] = {"writes": 0, "removes": 1, "reads": 2}
"""Order in which the two of an overlap are named."""

_ONE_OBJECT: Final = "exact"
"""Option of ``rm``: the key of the source alone."""


class Overlap(NamedTuple):
    """Two commands that meet at ``uri``; the first one writes or removes there."""

    first: int
    first_act: Act
    second: int
    second_act: Act
    uri: str


@frozen
class _Region:
    """The keys of a place that a command reads, writes or removes.

    Attributes:
        start: the key, or the start of all keys.
        end: the literal end of all keys.
        selects: test of a key that begins with ``start``; None: all of them.
    """

    line: int
    act: Act
    place: Location
    start: str
    is_exact: bool
    end: str = ""
    selects: Callable[[str], bool] | None = None

    @property
    def uri(self) -> str:
        return self.place.at(self.start) + ("" if self.is_exact else "*")

    def has(self, key: str) -> bool:
        """True when a key that begins with ``start`` belongs to it."""
        return key.endswith(self.end) and (self.selects is None or self.selects(key))

    def meets(self, other: _Region) -> bool:
        """True when a wide region may share a key with one whose start begins with its own."""
        if other.is_exact:
            return self.has(other.start)
        return self.end.endswith(other.end) or other.end.endswith(self.end)


_ByAct = dict[Act, list[_Region]]


def _by_act() -> _ByAct:
    return {"reads": [], "writes": [], "removes": []}


def _last_line(one: Overlap) -> int:
    return max(one.first, one.second)


def find_first(commands: Iterable[tuple[int, TransferSpec]]) -> Overlap | None:
    """The first overlap among numbered commands; None where none overlap."""
    in_buckets: dict[str, list[_Region]] = defaultdict(list)
    on_disk: list[_Region] = []
    for line, spec in commands:
        for region in _regions(line, spec):
            if isinstance(region.place, LocalFolder):
                on_disk.append(region)
            else:
                at = f"{endpoints.resolve(region.place) or 'aws'} {region.place.bucket}"
                in_buckets[at].append(region)
    found = [one for regions in in_buckets.values() if (one := _in_bucket(regions)) is not None]
    if (one := _on_disk(on_disk)) is not None:
        found.append(one)
    return min(found, key=_last_line, default=None)


# --- regions ----------------------------------------------------------------------------------------------------------


def may_write_one_key(specs: Iterable[TransferSpec]) -> bool:
    """True when two commands may write one key: what one writes lies below the prefix or folder of the other."""
    targets = sorted(
        (canonical_address(region.place, region.start), region.is_exact, number)
        for number, spec in enumerate(specs)
        if not spec.kind.removes
        for region in _of_target(number, spec)
    )
    above: list[tuple[str, int]] = []  # wide ones of one command: a second one ends the search
    for start, is_exact, number in targets:
        while above and not start.startswith(above[-1][0]):
            above.pop()
        if above and above[-1][1] != number:
            return True
        if not is_exact:
            above.append((start, number))
    return False


def canonical_address(place: Location, key: str) -> str:
    """An address that is the same for one key, however its location is written."""
    if isinstance(place, LocalFolder):
        path = place.at(key)
        return os.path.realpath(path) + ("/" if path.endswith("/") else "")
    return f"{endpoints.resolve(place) or 'aws'} {place.bucket}/{key}"


def _regions(line: int, spec: TransferSpec) -> Iterator[_Region]:
    if spec.kind.removes:
        yield from _of_source(line, "removes", spec)
        return
    yield from _of_source(line, "reads", spec)
    yield from _of_target(line, spec)
    if spec.removal.delete:
        yield _Region(line, "removes", spec.target, spec.target.key, is_exact=False)


def _of_source(line: int, act: Act, spec: TransferSpec) -> Iterator[_Region]:
    place, key = spec.source, spec.source.key
    if spec.keys is not None:
        for one in spec.keys:
            yield _Region(line, act, place, key + one, is_exact=True)
    elif spec.ranges:
        for one in spec.ranges:
            yield (
                _wide(line, act, place, one.key, one.pattern)
                if not one.single
                else _Region(line, act, place, one.key, is_exact=True)
            )
    elif spec.single or spec.options.get(_ONE_OBJECT):
        yield _Region(line, act, place, key, is_exact=True)
    else:
        yield _wide(line, act, place, key, spec.pattern, _names(spec))


def _of_target(line: int, spec: TransferSpec) -> Iterator[_Region]:
    place, start = spec.target, spec.target.key
    if spec.single:
        yield _Region(line, "writes", place, start, is_exact=True)
    elif spec.keys is not None:
        for one in spec.keys:
            yield _Region(line, "writes", place, target_key(spec, spec.source.key + one), is_exact=True)
    elif spec.ranges or spec.names.rename:
        yield _wide(line, "writes", place, start, None)
    else:
        names = _names(spec)

        def selects(key: str) -> bool:
            source = spec.strip + key.removeprefix(start)
            return source.startswith(spec.source.key) and (names is None or names(source))

        kept = literal_prefix(spec.pattern)[len(spec.strip) :] if spec.pattern is not None else ""
        yield _Region(line, "writes", place, start + kept, is_exact=False, end=_end(spec.pattern), selects=selects)


def _wide(
    line: int, act: Act, place: Location, key: str, pattern: str | None, selects: Callable[[str], bool] | None = None
) -> _Region:
    start = key if pattern is None else literal_prefix(pattern)
    return _Region(line, act, place, max(key, start, key=len), is_exact=False, end=_end(pattern), selects=selects)


def _end(pattern: str | None) -> str:
    return "" if pattern is None else literal_prefix(pattern[::-1])[::-1]


def _names(spec: TransferSpec) -> Callable[[str], bool] | None:
    """The test of a source key by wildcard and rules; sizes and ages are not known here."""
    test = build_matcher(build_conditions(spec)._replace(filters=Filters()))
    return None if test is None else lambda key: test(key, 0, 0.0)


# --- buckets ----------------------------------------------------------------------------------------------------------


def _in_bucket(regions: Sequence[_Region]) -> Overlap | None:
    exact: dict[str, _ByAct] = defaultdict(_by_act)
    above: list[tuple[str, _ByAct]] = []
    found: list[Overlap] = []
    # A region comes after all wide ones whose start its own start begins with.
    for one in sorted(regions, key=lambda each: (each.start, each.is_exact)):
        while above and not one.start.startswith(above[-1][0]):
            above.pop()
        wide = (other for _, acts in above for act in _AGAINST_WIDE[one.act] for other in acts[act])
        found += _first(one, (other for other in wide if other.line != one.line and other.meets(one)))
        if one.is_exact:
            found += _first(one, (other for act in _AGAINST[one.act] for other in exact[one.start][act]))
            exact[one.start][one.act].append(one)
            continue
        if not above or above[-1][0] != one.start:
            above.append((one.start, _by_act()))
        above[-1][1][one.act].append(one)
    return min(found, key=_last_line, default=None)


def _first(one: _Region, others: Iterable[_Region]) -> Iterator[Overlap]:
    """The first overlap of a region with others that share a key with it, and may not."""
    for other in others:
        if other.line == one.line:
            continue
        uri = (one if one.is_exact else other).uri
        a, b = sorted((one, other), key=lambda each: (_RANK[each.act], each.line))
        yield Overlap(a.line, a.act, b.line, b.act, uri)
        return


# --- disks ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Paths:
    """Identities of paths: of each folder above a path, and of itself.

    What is there is known by device and inode, whichever path leads to it; what is not there by its name in its folder.
    """

    _known: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def chain(self, real: str) -> tuple[str, ...]:
        """The identities of a path without links."""
        if (known := self._known.get(real)) is not None:
            return known
        parent, _, name = real.rpartition("/")
        above = () if real == "/" else self.chain(parent or "/")
        try:
            there = Path(real).stat()
            own = f"{there.st_dev}:{there.st_ino}"
        except (OSError, ValueError):
            own = f"{above[-1] if above else ''}/{name}"
        self._known[real] = (*above, own)
        return self._known[real]


def _on_disk(regions: Sequence[_Region]) -> Overlap | None:
    paths = _Paths()
    exact: dict[str, _ByAct] = defaultdict(_by_act)
    wide: dict[str, _ByAct] = defaultdict(_by_act)
    placed: list[tuple[_Region, tuple[str, ...], list[str]]] = []
    for one in regions:
        real = os.path.realpath(_path(one))
        chain = paths.chain(real)
        placed.append((one, chain, real.strip("/").split("/")))
        (exact if one.is_exact else wide)[chain[-1]][one.act].append(one)
    found: list[Overlap] = []
    for one, chain, names in placed:
        if one.is_exact:
            found += _first(one, (other for act in _AGAINST[one.act] for other in exact[chain[-1]][act]))
        for depth, folder in enumerate(chain):
            if folder in wide:
                below = "/".join(names[depth:])
                others = (other for act in _AGAINST_WIDE[one.act] for other in wide[folder][act])
                found += _first(one, (other for other in others if _is_below(one, other, below)))
    return min(found, key=_last_line, default=None)


def _path(region: _Region) -> str:
    """The file, or the folder that all files of a wide region are in."""
    if region.is_exact:
        return region.place.at(region.start)
    return region.place.at(region.start[: region.start.rfind("/") + 1])


def _is_below(one: _Region, folder: _Region, below: str) -> bool:
    """True when a region whose path is ``below`` that of a wide one may share a file with it."""
    within = folder.start[: folder.start.rfind("/") + 1] + below
    if one.is_exact:
        return within.startswith(folder.start) and folder.has(within)
    return folder.end.endswith(one.end) or one.end.endswith(folder.end)
