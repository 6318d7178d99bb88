"""Limits at places, over all workers, as the tables ``[[limit]]`` of the configuration file describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from seqferry.settings import table_list
from seqferry.settings.sizes import Bandwidth
from seqferry.settings.table_list import TableError, TableList


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


def parse(tables: object) -> tuple[PlaceLimit, ...]:
    """The limits of a configuration file.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    found = _TABLES.read(tables)
    for values in found:
        if len(values) == 1:
            raise TableError("a limit limits nothing; write max_requests, max_bandwidth or tpslimit", "place")
    limits = tuple(PlaceLimit(**values) for values in found)
    if (place := table_list.repeated([limit.place.rstrip("/") for limit in limits])) is not None:
        raise TableError(f"two limits are at {place}; write one table with both", "place")
    return limits


def _bandwidth(value: object) -> Bandwidth:
    return Bandwidth.parse(value if isinstance(value, str) else "")


_COUNT: Final = table_list.number(1, 100_000)

_TABLES: Final = TableList(
    "limit",
    "kept",
    {"place": table_list.place, "max_requests": _COUNT, "max_bandwidth": _bandwidth, "tpslimit": _COUNT},
    {"place": "s3://bucket/runs/"},
)
