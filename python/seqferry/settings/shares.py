"""Shares of the gateway, as the tables ``[[share]]`` of the configuration file describe them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final, Literal, cast, get_args

from seqferry.model.frozen import frozen
from seqferry.settings import share_writes, table_list
from seqferry.settings.share_writes import Writes
from seqferry.settings.table_list import TableError, TableList

Squash = Literal["root", "all", "none"]

_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")
_MOST_CLIENTS: Final = 100
_ANONYMOUS: Final = 65534
"""The overflow user id of Linux."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_LONGEST_LIFETIME: Final = 10**9
MOST_FREE: Final = 1 << 60
"""Bytes that a share shows as free where nothing else limits them: the engine counts with no more."""


@frozen(kw_only=True)
class Share:
    """A bucket or prefix under a name that clients mount as ``/name``.

    Args:
        source: ``s3://bucket/prefix``.
        clients: addresses and networks; none: programs on this machine.
        squash: users that count as the anonymous one.
        uid: owner of files that store none, with ``gid``; modes likewise.
        stale_after: seconds for which listings are believed.
        free_space: bytes that are shown as free; of a share that can be written at most those that are.
        writes: None: the share is read-only.
    """

    name: str
    source: str
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    clients: tuple[str, ...] = ()
    squash: Squash = "root"
    anon_uid: int = _ANONYMOUS
    anon_gid: int = _ANONYMOUS
    uid: int = _ANONYMOUS
    gid: int = _ANONYMOUS
    file_mode: int = 0o644
    directory_mode: int = 0o755
    stale_after: float = 60.0
    free_space: int = MOST_FREE
    writes: Writes | None = None

    @property
    def read_only(self) -> bool:
        """Clients cannot write to it."""
        return self.writes is None


def parse(tables: object) -> tuple[Share, ...]:
    """The shares of a configuration file.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    shares = tuple(_share(values) for values in _TABLES.read(tables))
    if (name := table_list.find_repeated([share.name for share in shares])) is not None:
        raise TableError(f"two shares are named '{name}'; give each its own name", "name")
    return shares


def _share(values: dict[str, Any]) -> Share:
    of_writes = {key: values.pop(key) for key in share_writes.PARSERS if key in values}
    if not values.pop("read_only", True):
        return Share(writes=Writes(**of_writes), **values)
    for key in of_writes:
        raise TableError(f"[[share]] {key}: this is for shares that can be written; add read_only = false", key)
    return Share(**values)


def _name(value: object) -> str:
    name = table_list.text(value).removeprefix("/")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"'{name}' is no name of a share; write one word without a slash")
    return name


def _read_only(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("write true or false")  # noqa: TRY004 - as all values that do not fit
    return value


def _clients(value: object) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if not items or len(items) > _MOST_CLIENTS:
        raise ValueError(f"name 1 to {_MOST_CLIENTS} addresses or networks, or leave it out for this machine alone")
    found: list[str] = []
    for item in items:
        try:
            ipaddress.ip_network(text := table_list.text(item))
        except ValueError:
            raise ValueError(f"{item!r} is no IP address or network; write for example 10.1.2.0/24") from None
        found.append(text)
    return tuple(found)


def _squash(value: object) -> str:
    if value not in get_args(Squash):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(Squash))}")
    return cast("str", value)


def _mode(value: object) -> int:
    if not isinstance(value, str) or not re.fullmatch("[0-7]{3,4}", value) or int(value, 8) > 0o777:
        raise ValueError('write octal digits as a text, as "0644"')
    return int(value, 8)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LONGEST_LIFETIME:
        raise ValueError("write seconds")
    return float(value)


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63:
        return value
    found = re.fullmatch(r"(\d{1,18})\s*([KMGTP]?)(i?B)?", value) if isinstance(value, str) else None
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < size < 1 << 63:
        raise ValueError("write a size, as 100TiB")
    return size


_ID: Final = table_list.number(0, (1 << 32) - 1)

PARSERS: Final[dict[str, Callable[[object], Any]]] = {
    "name": _name,
    "source": table_list.place,
    "endpoint_url": table_list.text,
    "region": table_list.text,
    "profile": table_list.text,
    "read_only": _read_only,
    "clients": _clients,
    "squash": _squash,
    "anon_uid": _ID,
    "anon_gid": _ID,
    "uid": _ID,
    "gid": _ID,
    "file_mode": _mode,
    "directory_mode": _mode,
    "stale_after": _seconds,
    "free_space": _size,
    **share_writes.PARSERS,
}
"""The keys, each with what reads its value. A ValueError says what to write."""

_TABLES: Final = TableList("share", "served", PARSERS, {"name": "runs", "source": "s3://bucket/runs/"})
