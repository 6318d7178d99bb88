"""Shares of the gateway, as the tables ``[[share]]`` of the configuration file describe them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args

from seqferry.settings import tables
from seqferry.settings.share_writes import Writes
from seqferry.settings.tables import NO_OTHER_KEYS, Key, Place, TableError, Text

Squash = Literal["root", "all", "none"]

_ANONYMOUS: Final = 65534
"""The overflow user id of Linux."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_LONGEST_LIFETIME: Final = 10**9
MOST_FREE: Final = 1 << 60
"""Bytes that a share shows as free where nothing else limits them: the engine counts with no more."""


def _name(text: str) -> str:
    name = text.removeprefix("/")
    if not re.fullmatch(r"[^/\x00-\x1f\x7f]{1,255}", name) or name in {".", ".."}:
        raise ValueError(f"'{name}' is no name of a share; write one word without a slash")
    return name


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError from None
    return text


def _size(value: object) -> int:
    found = re.fullmatch(r"(\d{1,18})\s*([KMGTP]?)(i?B)?", value) if isinstance(value, str) else None
    size = int(found[1]) * _UNITS[found[2]] if found else value
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 63:
        raise ValueError
    return size


_Name = Annotated[str, Key("write a text", min_length=1, read=_name, example="runs")]
_Network = Annotated[str, Key("{value!r} is no IP address or network; write for example 10.1.2.0/24", read=_network)]
_Networks = Annotated[
    tuple[_Network, ...],
    Key(
        "name 1 to 100 addresses or networks, or leave it out for this machine alone",
        min_length=1,
        max_length=100,
    ),
]
_Squash = Annotated[Squash, Key(f"{{value!r}} is none of {', '.join(get_args(Squash))}")]
_Id = Annotated[int, tables.number(0, (1 << 32) - 1)]
_Mode = Annotated[
    int,
    Key(
        'write octal digits as a text, as "0644"',
        given=str,
        pattern="^0?[0-7]{3}$",
        read=lambda digits: int(digits, 8),
    ),
]
_Seconds = Annotated[float, Key("write seconds", strict=True, ge=0, le=_LONGEST_LIFETIME, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Writes):
    """A bucket or prefix under a name that clients mount as ``/name``.

    Args:
        source: ``s3://bucket/prefix``.
        request_payer: pay for requests to a Requester Pays bucket.
        read_only: clients cannot write to it, and it has no keys of ``Writes``.
        clients: addresses and networks; none: programs on this machine.
        squash: users that count as the anonymous one.
        uid: owner of files that store none, with ``gid``; modes likewise.
        stale_after: seconds for which listings are believed.
        free_space: bytes that are shown as free; of a share that can be written at most those that are.
    """

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    name: _Name
    source: Place
    endpoint_url: Text | None = None
    region: Text | None = None
    profile: Text | None = None
    request_payer: Annotated[Literal["requester"] | None, Key("write requester, or leave it out")] = None
    read_only: Annotated[bool, Key("write true or false", strict=True)] = True
    clients: _Networks = ()
    squash: _Squash = "root"
    anon_uid: _Id = _ANONYMOUS
    anon_gid: _Id = _ANONYMOUS
    uid: _Id = _ANONYMOUS
    gid: _Id = _ANONYMOUS
    file_mode: _Mode = 0o644
    directory_mode: _Mode = 0o755
    stale_after: _Seconds = 60.0
    free_space: Annotated[int, Key("write a size, as 100TiB", given=object, read=_size)] = MOST_FREE


def parse(given: object) -> tuple[Share, ...]:
    """The shares of a configuration file.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    shares = tables.build_list(Share, given, "share", "served")
    for share, table in zip(shares, cast("list[dict[str, Any]]", given), strict=True):
        for key in (key for key in table if share.read_only and key in tables.keys(Writes)):
            raise TableError(f"[[share]] {key}: this is for shares that can be written; add read_only = false", key)
    if (name := tables.find_repeated([share.name for share in shares])) is not None:
        raise TableError(f"two shares are named '{name}'; give each its own name", "name")
    return shares
