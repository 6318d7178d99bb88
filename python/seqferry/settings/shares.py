"""Shares of the gateway, as the tables ``[[share]]`` of the configuration file describe them."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from seqferry.settings import share_writes
from seqferry.settings.share_writes import Writes

Squash = Literal["root", "all", "none"]

_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")
_MOST_CLIENTS: Final = 100
_MOST_SHARES: Final = 256
_ANONYMOUS: Final = 65534
"""The user that Linux calls nobody."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_LONGEST_LIFETIME: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
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
    free_space: int = 1 << 60
    writes: Writes | None = None

    @property
    def read_only(self) -> bool:
        """Clients cannot write to it."""
        return self.writes is None


class ShareError(Exception):
    """A table that describes no share. ``key`` is the one at fault, if one is."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def parse(tables: object) -> tuple[Share, ...]:
    """The shares of a configuration file.

    Raises:
        ShareError: a key is not known or missing, or a value does not fit.
    """
    items = cast("list[Any]", tables) if isinstance(tables, list) else [None]
    if not all(isinstance(item, dict) for item in items):
        raise ShareError("'share' is a list of tables; write [[share]]")
    if len(items) > _MOST_SHARES:
        raise ShareError(f"there are {len(items)} shares, and at most {_MOST_SHARES} can be served")
    shares = tuple(_share(cast("dict[str, Any]", item)) for item in items)
    names = [share.name for share in shares]
    for name in names:
        if names.count(name) > 1:
            raise ShareError(f"two shares are named '{name}'; give each its own name", "name")
    return shares


def _share(table: Mapping[str, Any]) -> Share:
    for key in table:
        if key not in _PARSERS:
            nearest = difflib.get_close_matches(key, _PARSERS, 1)
            hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are: {', '.join(_PARSERS)}"
            raise ShareError(f"the key '{key}' in [[share]] is not known; {hint}", key)
    for key in ("name", "source"):
        if key not in table:
            raise ShareError(
                f'a share has no {key}; write {key} = "{"runs" if key == "name" else "s3://bucket/runs/"}"'
            )
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values[key] = _PARSERS[key](value)
        except ValueError as why:
            raise ShareError(f"[[share]] {key}: {why}", key) from None
    of_writes = {key: values.pop(key) for key in share_writes.PARSERS if key in values}
    if not values.pop("read_only", True):
        return Share(writes=Writes(**of_writes), **values)
    for key in of_writes:
        raise ShareError(f"[[share]] {key}: this is for shares that can be written; add read_only = false", key)
    return Share(**values)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("write a text")
    return value


def _name(value: object) -> str:
    name = _text(value).removeprefix("/")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"'{name}' is no name of a share; write one word without a slash")
    return name


def _source(value: object) -> str:
    source = _text(value)
    if not source.startswith("s3://") or not source.removeprefix("s3://").strip("/"):
        raise ValueError(f"'{source}' is no bucket or prefix; write s3://bucket/prefix/")
    return source


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
            ipaddress.ip_network(text := _text(item))
        except ValueError:
            raise ValueError(f"{item!r} is no IP address or network; write for example 10.1.2.0/24") from None
        found.append(text)
    return tuple(found)


def _squash(value: object) -> str:
    if value not in get_args(Squash):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(Squash))}")
    return cast("str", value)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError("write a number from 0 to 4294967295")
    return value


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


_PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "name": _name,
    "source": _source,
    "endpoint_url": _text,
    "region": _text,
    "profile": _text,
    "read_only": _read_only,
    "clients": _clients,
    "squash": _squash,
    "anon_uid": _number,
    "anon_gid": _number,
    "uid": _number,
    "gid": _number,
    "file_mode": _mode,
    "directory_mode": _mode,
    "stale_after": _seconds,
    "free_space": _size,
    **share_writes.PARSERS,
}
