"""Limits at places, over all workers, as the tables ``[[limit]]`` of the configuration file describe them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from seqferry.settings.sizes import Bandwidth

_MOST: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimit:
    """A limit at a bucket or prefix, for all transfers that read from it or write to it, over all workers.

    Args:
        place: ``s3://bucket`` or ``s3://bucket/prefix``.
        max_requests: requests in flight. max_bandwidth: bytes per second. tpslimit: requests started per second.
    """

    place: str
    max_requests: int | None = None
    max_bandwidth: Bandwidth | None = None
    tpslimit: int | None = None

    def covers(self, uri: str) -> bool:
        """True for the place itself and what lies below it."""
        return uri == self.place or uri.startswith(f"{self.place.rstrip('/')}/")


class PlaceLimitError(Exception):
    """A table that describes no limit. ``key`` is the one at fault, if one is."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def parse(tables: object) -> tuple[PlaceLimit, ...]:
    """The limits of a configuration file.

    Raises:
        PlaceLimitError: a key is not known or missing, or a value does not fit.
    """
    items = cast("list[Any]", tables) if isinstance(tables, list) else [None]
    if not all(isinstance(item, dict) for item in items):
        raise PlaceLimitError("'limit' is a list of tables; write [[limit]]")
    if len(items) > _MOST:
        raise PlaceLimitError(f"there are {len(items)} limits, and at most {_MOST} are kept")
    limits = tuple(_limit(cast("dict[str, Any]", item)) for item in items)
    places = [limit.place.rstrip("/") for limit in limits]
    for place in places:
        if places.count(place) > 1:
            raise PlaceLimitError(f"two limits are at {place}; write one table with both", "place")
    return limits


def _limit(table: Mapping[str, Any]) -> PlaceLimit:
    for key in table:
        if key not in _PARSERS:
            nearest = difflib.get_close_matches(key, _PARSERS, 1)
            hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are: {', '.join(_PARSERS)}"
            raise PlaceLimitError(f"the key '{key}' in [[limit]] is not known; {hint}", key)
    if "place" not in table:
        raise PlaceLimitError('a limit has no place; write place = "s3://bucket/runs/"')
    if len(table) == 1:
        raise PlaceLimitError("a limit limits nothing; write max_requests, max_bandwidth or tpslimit", "place")
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values[key] = _PARSERS[key](value)
        except ValueError as why:
            raise PlaceLimitError(f"[[limit]] {key}: {why}", key) from None
    return PlaceLimit(**values)


def _place(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("s3://") or not value.removeprefix("s3://").strip("/"):
        raise ValueError(f"{value!r} is no bucket or prefix; write s3://bucket/prefix/")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
        raise ValueError("write a number from 1 to 100000")
    return value


def _bandwidth(value: object) -> Bandwidth:
    return Bandwidth.parse(value if isinstance(value, str) else "")


_PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "place": _place,
    "max_requests": _count,
    "max_bandwidth": _bandwidth,
    "tpslimit": _count,
}
