"""Limits at places, over all workers, as the tables ``[[limit]]`` of the configuration file describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from seqferry.places import endpoints
from seqferry.settings import tables
from seqferry.settings.sizes import Bandwidth
from seqferry.settings.tables import NO_OTHER_KEYS, Key, Place, TableError


def _endpoint_url(text: str) -> str:
    if (fault := endpoints.find_fault(text)) is not None:
        shown = "it" if fault == "credentials" else f"'{text}'"
        raise ValueError(f"{shown} is no endpoint URL; write for example https://s3.example.org, without credentials")
    return text


_EndpointUrl = Annotated[str, Key("write a text", min_length=1, read=_endpoint_url)]
_Count = Annotated[int, tables.number(1, 100_000)]
_Bandwidth = Annotated[
    Bandwidth, Key("write for example 50MB/s, or 08:00,50MB/s 18:00,off", given=str, read=Bandwidth.parse)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimit:
    """A limit at a bucket or prefix, for all transfers that read from it or write to it, over all workers.

    Args:
        place: ``s3://bucket`` or ``s3://bucket/prefix``.
        endpoint_url: of the service that has the bucket; None: any bucket of this name, whatever its service.
        max_requests: requests in flight. max_bandwidth: bytes per second. tpslimit: requests started per second.
    """

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    place: Place
    endpoint_url: _EndpointUrl | None = None
    max_requests: _Count | None = None
    max_bandwidth: _Bandwidth | None = None
    tpslimit: _Count | None = None

    @property
    def name(self) -> str:
        """The same for all workers, and another for each limit."""
        return self.place if self.endpoint_url is None else f"{endpoints.identity(self.endpoint_url)} {self.place}"

    def covers(self, uri: str, endpoint: str | None) -> bool:
        """True for the place itself and what lies below it, in the service with this identity (None: AWS)."""
        if self.endpoint_url is not None and endpoints.identity(self.endpoint_url) != endpoint:
            return False
        return uri == self.place or uri.startswith(f"{self.place.rstrip('/')}/")


def parse(given: object) -> tuple[PlaceLimit, ...]:
    """The limits of a configuration file.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    limits = tables.build_list(PlaceLimit, given, "limit", "kept")
    if any(limit.max_requests is limit.max_bandwidth is limit.tpslimit is None for limit in limits):
        raise TableError("a limit limits nothing; write max_requests, max_bandwidth or tpslimit", "place")
    if (name := tables.find_repeated([limit.name.rstrip("/") for limit in limits])) is not None:
        raise TableError(f"two limits are at {name.rpartition(' ')[2]}; write one table with both", "place")
    return limits
