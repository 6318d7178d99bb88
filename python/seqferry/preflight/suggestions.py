"""Names of existing objects that are most similar to a mistyped one.

It needs a few requests at most: one page of the folder, or of the nearest folder above it that is not empty.
"""

from __future__ import annotations

import difflib
import heapq
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from seqferry.engine.engine import Engine
from seqferry.model.errors import StorageError
from seqferry.model.locations import Location
from seqferry.model.models import ResolvedSpec
from seqferry.spec.selection import literal_prefix
from seqferry.spec.source_ranges import split_sources

log: Final = logging.getLogger("seqferry.nearest")

MAX_SUGGESTIONS: Final = 3
_PAGE: Final = 1000
_FOLDERS: Final = 4
_COMPARED: Final = 20
"""Names that are compared letter by letter: those that hold most letters of the wanted one."""
_LETTERS: Final = 100
"""Letters of a name that are compared, from its end: the time grows with the square of them, or faster."""


def nearest_keys(engine: Engine, spec: ResolvedSpec) -> list[str]:
    """Keys of the source that are most similar to what the spec selects; none if listing is denied."""
    if spec.kind.unpacks:
        return []  # the archive is there; names of members are no keys
    part = split_sources(spec)[0]
    wanted = _wanted_key(part)
    try:
        for folder in _folders(literal_prefix(wanted)):
            found = _list(engine, replace(part.source, key=folder))
            if found:
                return most_similar(wanted, found)
    except StorageError as why:
        log.info("no similar keys for %s: %s", part.source.uri, why)
    return []


def _wanted_key(spec: ResolvedSpec) -> str:
    """The key that the user had in mind: the wildcard, or else the last rule that includes."""
    if spec.pattern is not None:
        return spec.pattern
    included = next((rule[2:] for rule in reversed(spec.names.rules) if rule.startswith("+ ")), "")
    return spec.source.key + included


def _folders(start: str) -> Iterator[str]:
    """The folder of a key and those above it, the bucket last."""
    folder = start[: start.rfind("/") + 1]
    for _ in range(_FOLDERS):
        yield folder
        if not folder:
            return
        folder = folder[: folder.rstrip("/").rfind("/") + 1]
    yield ""


def _list(engine: Engine, place: Location) -> list[str]:
    pages = engine.list(place, limit=_PAGE)
    return [info.key for page in pages for info in page if info.refusal is None and not info.key.endswith("/")]


def most_similar(wanted: str, keys: list[str]) -> list[str]:
    """The keys that are most similar to ``wanted``, best first. An equal ending counts more."""
    name = _plain(wanted.rpartition("/")[2])[-_LETTERS:]
    ending = wanted.rpartition(".")[2] if "." in name else ""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(name)

    def by(ratio: Callable[[], float]) -> Callable[[str], tuple[float, str]]:
        def likeness(key: str) -> tuple[float, str]:
            last = key.rpartition("/")[2]
            matcher.set_seq1(last[-_LETTERS:])
            return -ratio() - (0.5 if ending and last.endswith(ending) else 0.0), key

        return likeness

    likely = heapq.nsmallest(_COMPARED, keys, key=by(matcher.quick_ratio))
    return sorted(likely, key=by(matcher.ratio))[:MAX_SUGGESTIONS]


def _plain(pattern: str) -> str:
    return re.sub(r"[*?]", "", pattern)
