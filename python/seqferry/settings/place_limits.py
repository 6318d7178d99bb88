"""Limits at places, over all workers, as the tables ``[[limit]]`` of the configuration file describe them."""

from __future__ import annotations

from typing import Final

from seqferry.model.frozen import frozen
from seqferry.places import endpoints
from seqferry.settings import table_list
from seqferry.settings.sizes import Bandwidth
from seqferry.settings.table_list import TableError, TableList


@frozen(kw_only=True)
class PlaceLimit:
    """A limit at a bucket or prefix, for all transfers that read from it or write to it, over all workers.

    Args:
        place: ``s3://bucket`` or ``s3://bucket/prefix``.
        endpoint_url: of the service that has the bucket; None: any bucket of this name, whatever its service.
        max_requests: requests in flight. max_bandwidth: bytes per second. tpslimit: requests started per second.
    """

    place: str
    endpoint_url: str | None = None
    max_requests: int | None = None
    max_bandwidth: Bandwidth | None = None
    tpslimit: int | None = None

    @property
    def name(self) -> str:
        """The same for all workers, and another for each limit."""
        return self.place if self.endpoint_url is None else f"{endpoints.identity(self.endpoint_url)} {self.place}"

    def covers(self, uri: str, endpoint: str | None) -> bool:
        """True for the place itself and what lies below it, in the service with this identity (None: AWS)."""
        if self.endpoint_url is not None and endpoints.identity(self.endpoint_url) != endpoint:
            return False
        return uri == self.place or uri.startswith(f"{self.place.rstrip('/')}/")


def parse(tables: object) -> tuple[PlaceLimit, ...]:
    """The limits of a configuration file.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    found = _TABLES.read(tables)
    for values in found:
        if not values.keys() - {"place", "endpoint_url"}:
            raise TableError("a limit limits nothing; write max_requests, max_bandwidth or tpslimit", "place")
    limits = tuple(PlaceLimit(**values) for values in found)
    if (name := table_list.find_repeated([limit.name.rstrip("/") for limit in limits])) is not None:
        raise TableError(f"two limits are at {name.rpartition(' ')[2]}; write one table with both", "place")
    return limits


def _bandwidth(value: object) -> Bandwidth:
    return Bandwidth.parse(value if isinstance(value, str) else "")


def _endpoint_url(value: object) -> str:
    text = table_list.text(value)
    if (fault := endpoints.find_fault(text)) is not None:
        shown = "it" if fault == "credentials" else f"'{text}'"
        raise ValueError(f"{shown} is no endpoint URL; write for example https://s3.example.org, without credentials")
    return text


_COUNT: Final = table_list.number(1, 100_000)

_TABLES: Final = TableList(
    "limit",
    "kept",
    {
        "place": table_list.place,
        "endpoint_url": _endpoint_url,
        "max_requests": _COUNT,
        "max_bandwidth": _bandwidth,
        "tpslimit": _COUNT,
    },
    {"place": "s3://bucket/runs/"},
)
