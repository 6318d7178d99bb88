"""The configuration file (TOML): its keys, and errors in a file. Only ``config`` reads it."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from seqferry.model import encoding
from seqferry.model.errors import PolicyError, UsageError
from seqferry.settings.channels import ChannelError, Notices, parse_duration
from seqferry.settings.channels import parse as parse_notices
from seqferry.settings.policy import Policy, refuse_address

if TYPE_CHECKING:
    from seqferry.settings.place_limits import PlaceLimit
    from seqferry.settings.shares import Share

T = TypeVar("T")

SETTINGS: Final = (
    "state_dir",
    "database_url",
    "database_direct_url",
    "database_connections",
    "max_requests",
    "memory",
    "max_bandwidth",
    "tpslimit",
    "cache",
    "max_cache_size",
    "trace",
    "log_format",
    "host_name",
    "folders",
    "shared_folders",
    "autoscale_min",
    "autoscale_max",
    "autoscale_drain_minutes",
    "audit_key",
)
"""Settings that stand at the start of the file, before any table; each has a variable ``SEQFERRY_<NAME>`` that wins."""

AUDIT: Final = ("anchor", "key", "endpoint_url", "region", "profile", "retention", "lock_mode")
"""Keys of the table ``[audit]``; each has a variable ``SEQFERRY_AUDIT_<NAME>`` that wins."""

_MAX_BYTES: Final = 1024 * 1024


def read(path: Path, *, named: bool) -> tuple[dict[str, tuple[int, str]], dict[str, Any]]:
    """Settings in the file that the environment may give as well, with their lines; and the file's other fields.

    Args:
        named: by SEQFERRY_CONFIG; else it is the usual one, and something is there.

    Raises:
        UsageError: the file cannot be read, or a value in it is not valid. Names the file and the line.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        text = encoding.decode(raw)
    except FileNotFoundError:
        why_not = "which SEQFERRY_CONFIG names" if named else "where a link leads to nothing"
        raise UsageError(f"There is no configuration file {path}, {why_not}.") from None
    except OSError as why:
        raise UsageError(f"Cannot read the configuration file {path}: {why.strerror or why}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The configuration file {path} is not valid UTF-8.") from None
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"The configuration file {path} is larger than 1 MiB.")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        raise UsageError(f"The configuration file {path} is not valid TOML: {why}.") from None
    return _fields(path, text, tables)


def _fields(path: Path, text: str, tables: dict[str, Any]) -> tuple[dict[str, tuple[int, str]], dict[str, Any]]:
    notices = _notices(path, text, tables.pop("notices", {}))
    shares = _shares(path, text, tables.pop("share", []))
    limits = _place_limits(path, text, tables.pop("limit", []))
    settings = _audit(path, text, tables.pop("audit", {}))
    for name, value in tables.items():
        if name in SETTINGS:
            line = _line(text, None, name)
            if isinstance(value, (dict, list, bool)) or not isinstance(value, (str, int)):
                raise UsageError(f"{path}, line {line}: '{name}' is a text or a whole number.")
            if name in settings:
                raise UsageError(f"{path}, line {line}: '{name}' is also in the table [audit]; give it once.")
            settings[name] = (line, str(value))
        elif name not in _KEYS:
            raise _unknown_key_error(path, text, None, name, (*_KEYS, "audit", "limit", "notices", "share", *SETTINGS))
    server: Any = tables.get("server", {})
    if not isinstance(server, dict):
        raise UsageError(f"{path}, line {_line(text, None, 'server')}: 'server' is a table; write [server].")
    parsed: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", server).items():
        if key not in _KEYS["server"] and key not in _VALUES:
            raise _unknown_key_error(path, text, "server", key, (*_KEYS["server"], *_VALUES))
        where = f"{path}, line {_line(text, 'server', key)}: [server] {key}"
        if key in _VALUES:
            parsed[key] = _parse(where, _VALUES[key], value)
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else [None]
        texts = [one for one in items if isinstance(one, str)]
        if len(texts) != len(items):
            raise UsageError(f'{where} is a list of texts; write for example {key} = ["{_EXAMPLES[key]}"].')
        try:
            parsed[key] = tuple(_KEYS["server"][key](one) for one in texts)
        except ValueError as why:
            raise UsageError(f"{where}: {why}.") from None
    proxies, public_url = parsed.pop("trusted_proxies", ()), parsed.pop(_PUBLIC_URL, None)
    found = {"policy": Policy(**parsed), "trusted_proxies": proxies, "public_url": public_url}
    return settings, {**found, "notices": notices, "shares": shares, "place_limits": limits}


def _parse(where: str, parse: Callable[[object], Any], value: object) -> Any:
    try:
        return parse(value)
    except ValueError as why:
        raise UsageError(f"{where}: {why}.") from None


def _audit(path: Path, text: str, table: object) -> dict[str, tuple[int, str]]:
    """The table ``[audit]`` as settings."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}, line {_line(text, None, 'audit')}: 'audit' is a table; write [audit].")
    found: dict[str, tuple[int, str]] = {}
    for key, value in cast("dict[str, Any]", table).items():
        if key not in AUDIT:
            raise _unknown_key_error(path, text, "audit", key, AUDIT)
        line = _line(text, "audit", key)
        if not isinstance(value, str):
            raise UsageError(f"{path}, line {line}: [audit] {key} is a text.")
        found[f"audit_{key}"] = (line, value)
    return found


def _place_limits(path: Path, text: str, tables: object) -> tuple[PlaceLimit, ...]:
    if not tables and isinstance(tables, list):
        return ()
    from seqferry.settings.place_limits import parse  # other files need not wait for it

    return _tables(path, text, "limit", lambda: parse(tables))


def _shares(path: Path, text: str, tables: object) -> tuple[Share, ...]:
    if not tables and isinstance(tables, list):
        return ()
    from seqferry.settings.shares import parse  # other files need not wait for it

    return _tables(path, text, "share", lambda: parse(tables))


def _tables(path: Path, text: str, name: str, read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    from seqferry.settings.table_list import TableError

    try:
        return read()
    except TableError as why:
        line = _line(text, None, name) if why.key is None else _line(text, name, why.key)
        raise UsageError(f"{path}, line {line}: {why}.") from None


def _notices(path: Path, text: str, table: object) -> Notices:
    try:
        return parse_notices(table)
    except ChannelError as why:
        raise UsageError(f"{path}, line {_notices_line(text, why.key)}: {why}.") from None


def _notices_line(text: str, key: str) -> int:
    """The first line from the table of notices on that has the key, or else the first line of that table."""
    lines = list(enumerate(text.splitlines(), 1))
    start = next((number for number, line in lines if re.match(r"\s*\[\s*notices", line)), 1)
    named = re.compile(rf"\s*(\[.*[.\"'\s])?[\"']?{re.escape(key)}[\"']?\s*(=|\])")
    return next((number for number, line in lines if number >= start and named.match(line)), start)


def _unknown_key_error(path: Path, text: str, table: str | None, key: str, known: Iterable[str]) -> UsageError:
    nearest = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are: {', '.join(known)}."
    what = f"the key '{key}' in [{table}]" if table else f"the table or key '{key}'"
    return UsageError(f"{path}, line {_line(text, table, key)}: {what} is not known; {hint}")


def _line(text: str, table: str | None, key: str) -> int:
    """The line on which a key, or a table, is first written. TOML's parser does not tell."""
    current = None
    named = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*[=.]")
    below = None if table is None else re.compile(rf"{re.escape(table)}\s*\.\s*[\"']?{re.escape(key)}[\"']?\s*=")
    braces = None if table is None else re.compile(rf"{re.escape(table)}\s*=\s*\{{")
    assigned = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*=")
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*[\"']?([^\]\"'.]+)", line)
        if header:
            current = header[1].strip()
            if table is None and current == key:
                return number
        written = line.lstrip()
        within = current == table and named.match(written)
        dotted = below is not None and below.match(written)
        inline = braces is not None and (begin := braces.match(written)) and assigned.search(written, begin.end())
        if within or dotted or inline:
            return number
    return 1


def _endpoint(text: str) -> str:
    if "@" in text:
        raise ValueError("an endpoint URL holds no credentials")
    parts = urlsplit(text)  # raises for an address without its closing bracket
    host = parts.hostname
    if not host or parts.port == 0 or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ValueError(f"'{text}' is not an endpoint URL; write for example {_EXAMPLES['endpoints']}")
    try:
        refuse_address(host, text)
    except PolicyError as why:
        raise ValueError(why.message.rstrip(".")) from None
    return text


def _profile(text: str) -> str:
    if not text.strip():
        raise ValueError("the name of a profile is empty")
    return text


def _place(text: str) -> str:
    if text.startswith("/") and "\0" not in text:
        return f"{os.path.normpath(text).rstrip('/')}/"
    bucket, slash, key = text.removeprefix("s3://").partition("/")
    start = text.removesuffix("*")
    fits = text.startswith("s3://") and bucket and "*" not in start
    if fits and not slash and start == text:
        return f"{text}/"
    if not fits or (start == text and key and not key.endswith("/")):
        raise ValueError(
            f"'{text}' is not a bucket or a prefix; write s3://bucket, s3://bucket/prefix/ or s3://bucket/start*, or "
            "the absolute path of a folder"
        )
    return start


def _proxy(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not an IP address or network; write for example 127.0.0.1 or 10.0.0.0/8"
        ) from None
    return text


_PUBLIC_URL: Final = "public_url"


def _public_url(value: object) -> str:
    """The address without its last slash, as it stands before the paths of the server."""
    example = 'write for example "https://ferry.example.org" or "https://example.org/ferry"'
    if not isinstance(value, str):
        raise ValueError(f"it must be a text; {example}")  # noqa: TRY004 - reported with its line
    parts = urlsplit(value)
    plain = parts.hostname and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not plain or parts.port == 0 or not value.isprintable() or " " in value:
        raise ValueError(f"it is not the address of a page; {example}")
    return value.rstrip("/")


def _most_schedules(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("it is a whole number of 0 or more; write for example 100")
    return value


_VALUES: Final[Mapping[str, Callable[[object], Any]]] = {
    _PUBLIC_URL: _public_url,
    "most_schedules": _most_schedules,
    "schedule_interval": parse_duration,
}
"""Keys of the table ``[server]`` whose value is no list."""

_KEYS: Final[Mapping[str, Mapping[str, Callable[[str], str]]]] = {
    "server": {
        "endpoints": _endpoint,
        "profiles": _profile,
        "read": _place,
        "write": _place,
        "trusted_proxies": _proxy,
    }
}
_EXAMPLES: Final = {
    "endpoints": "https://s3.example.org",
    "profiles": "lab",
    "read": "s3://vendor/*",
    "write": "s3://ours/run42/*",
    "trusted_proxies": "127.0.0.1",
}
