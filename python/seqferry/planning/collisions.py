"""Collisions: several objects of a source that would go to one key of the target, found before the first is copied.

Where rules rename, or several sources share a target, all objects are listed first, into a temporary database that is
on the disk when it is large and gone with the process. So memory does not grow with the objects, and the source is
listed once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, Generic, TypeVar

from seqferry.model.errors import UsageError
from seqferry.model.models import ResolvedSpec
from seqferry.spec import target_keys

PAGE: Final = 1000
_CACHE_KIB: Final = 16 * 1024
"""Memory for the temporary database; further pages are on the disk."""

Item = TypeVar("Item")


def are_possible(spec: ResolvedSpec) -> bool:
    """True when two objects of the source can get one name. Lists of keys are checked by ``target_keys.check``."""
    return bool(spec.ranges) or (bool(spec.names.rename) and spec.keys is None)


class Spool(Generic[Item]):
    """Objects that were found, by their targets.

    Args:
        names: source key, version and target key of an item; None for one that is not copied.
        pack, unpack: an item as values of JSON, and back.
        fault: the error for two source keys that have one target; None: as of objects of one source.
    """

    def __init__(
        self,
        spec: ResolvedSpec,
        names: Callable[[Item], tuple[str, str, str | None]],
        pack: Callable[[Item], Sequence[Any]],
        unpack: Callable[[Sequence[Any]], Item],
        fault: Callable[[str, str, str], UsageError] | None = None,
    ) -> None:
        self._spec, self._names, self._pack, self._unpack, self._shared = spec, names, pack, unpack, fault

    def unique(self, pages: Iterator[list[Item]]) -> Iterator[list[Item]]:
        """The same objects, each once, after all of them were seen; an empty page for each that was read.

        Raises:
            UsageError: two objects have one target, or one object has two.
        """
        with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as rows:
            rows.execute(f"pragma cache_size = -{_CACHE_KIB}")
            rows.execute("pragma journal_mode = off")
            rows.execute("create table item (target text unique, source text, version text, data text)")
            rows.execute("create unique index by_source on item (source, version)")
            for page in pages:
                self._add(rows, page)
                yield []
            found = rows.execute("select data from item")
            while packed := found.fetchmany(PAGE):
                yield [self._unpack(json.loads(data)) for (data,) in packed]

    def _add(self, rows: sqlite3.Connection, page: list[Item]) -> None:
        rows.execute("begin")
        for item in page:
            source, version, target = self._names(item)
            values = (target and _encode_key(target), _encode_key(source), version, json.dumps(self._pack(item)))
            added = rows.execute("insert or ignore into item values (?, ?, ?, ?)", values)
            if added.rowcount:
                continue
            known = rows.execute(
                "select source, target from item where target = ? or (source = ? and version = ?)", values[:3]
            ).fetchall()
            if known != [(values[1], values[0])]:
                raise self._fault(known, source, target or "")
        rows.execute("commit")

    def _fault(self, known: list[tuple[str, str | None]], source: str, target: str) -> UsageError:
        shown = self._spec.source.at(source)
        for other, taken in known:
            if other != _encode_key(source):
                if self._shared is not None:
                    return self._shared(_read(other), source, target)
                return target_keys.collision_error(self._spec, target, self._spec.source.at(_read(other)), shown)
            if taken and taken != _encode_key(target):
                places = f"{self._spec.target.at(_read(taken))} and {self._spec.target.at(target)}"
                why = f"{shown} is named by two sources, and would become both {places}."
                return UsageError(f"{why} Nothing was copied; leave one out.").about("source")
        return UsageError(f"{shown} is named by two sources. Nothing was copied; leave one out.").about("source")


def _encode_key(key: str) -> str:
    """A key as a database takes it: halves of characters stand for bytes that are no UTF-8."""
    return key.encode("utf-8", "surrogateescape").hex() if not key.isascii() or "\0" in key else f"={key}"


def _read(stored: str) -> str:
    return stored[1:] if stored.startswith("=") else bytes.fromhex(stored).decode("utf-8", "surrogateescape")
