"""Keys of a share that can be written, as a table ``[[share]]`` with ``read_only = false`` describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from seqferry.model.frozen import frozen
from seqferry.settings.sizes import parse_rate

_STORAGE_CLASS: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_WINDOW: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])")
_DAY: Final = 24 * 60
_MOST_PATTERNS: Final = 100
_LONGEST_PATTERN: Final = 255
"""Bytes of the longest name of a file."""
_MOST_WINDOWS: Final = 24
_SHORTEST_SETTLE: Final = 1.0
"""Programs write a file in several calls: one that is sent between two of them is sent twice."""
_LONGEST_SETTLE: Final = 86400.0


@frozen(kw_only=True)
class Writes:
    """Settings for writing to a share.

    Args:
        settle: seconds for which a file must not change before it is uploaded.
        storage_class: of new objects; None: as the bucket has it.
        ignore: patterns of names that stay on this machine; None: those of the gateway.
        markers: patterns of names that are uploaded after all older files of their folder; None: those of the gateway.
        upload_window: times of the day for uploads, in minutes since midnight of this machine's clock; none: always.
        max_bandwidth: bytes per second that are uploaded at most; None: no limit of its own.
    """

    settle: float = 5.0
    storage_class: str | None = None
    ignore: tuple[str, ...] | None = None
    markers: tuple[str, ...] | None = None
    upload_window: tuple[tuple[int, int], ...] = ()
    max_bandwidth: int | None = None


def _settle(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not _SHORTEST_SETTLE <= cast("float", value) <= _LONGEST_SETTLE:
        raise ValueError(f"write seconds, from {_SHORTEST_SETTLE:g} to {_LONGEST_SETTLE:g}")
    return float(cast("float", value))


def _storage_class(value: object) -> str:
    if not isinstance(value, str) or not _STORAGE_CLASS.fullmatch(value):
        raise ValueError(f"{value!r} is no storage class; write for example STANDARD_IA")
    return value


def _patterns(value: object) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else None
    if items is None or len(items) > _MOST_PATTERNS:
        raise ValueError(f'write a list of at most {_MOST_PATTERNS} patterns of names, as ["*.tmp", ".DS_Store"]')
    for item in items:
        if not isinstance(item, str) or not item or len(item.encode()) > _LONGEST_PATTERN:
            raise ValueError(f"{item!r} is no pattern of a name; write for example *.tmp")
        if "/" in item:
            raise ValueError(f"'{item}' has a slash, and a pattern is for names without their folders")
    return tuple(cast("list[str]", items))


def _upload_window(value: object) -> tuple[tuple[int, int], ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if not 0 < len(items) <= _MOST_WINDOWS:
        raise ValueError(f'write a list of 1 to {_MOST_WINDOWS} times of the day, as ["22:00-06:00"]')
    return tuple(_window(item) for item in items)


def _window(item: object) -> tuple[int, int]:
    found = _WINDOW.fullmatch(item) if isinstance(item, str) else None
    start, end = (60 * int(found[1]) + int(found[2]), 60 * int(found[3]) + int(found[4])) if found else (0, 0)
    if found is None or end > _DAY or start == end:
        raise ValueError(f'{item!r} is no time of the day; write hours and minutes, as "22:00-06:00"')
    return start, end


def _bandwidth(value: object) -> int:
    if isinstance(value, str):
        size = parse_rate(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        size = 0
    if not 0 < size < 1 << 60:
        raise ValueError('write bytes per second, as "50MB/s"')
    return size


PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "settle": _settle,
    "storage_class": _storage_class,
    "ignore": _patterns,
    "markers": _patterns,
    "upload_window": _upload_window,
    "max_bandwidth": _bandwidth,
}
"""The keys, each with what reads its value. A ValueError says what to write."""
