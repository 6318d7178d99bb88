"""The configuration file (TOML): its keys, and errors in a file. Only ``config`` reads it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from seqferry.model import encoding
from seqferry.model.errors import UsageError
from seqferry.settings import tables
from seqferry.settings.tables import TableError

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

_TABLES: Final = ("limit", "notices", "server", "share")
"""The other tables: what a server, a gateway or a worker reads."""

_MAX_BYTES: Final = 1024 * 1024


def read(path: Path, *, named: bool, with_tables: bool) -> tuple[dict[str, tuple[int, str]], dict[str, Any]]:
    """Settings in the file that the environment may give as well, with their lines; and the file's other fields.

    Args:
        named: by SEQFERRY_CONFIG; else it is the usual one, and something is there.
        with_tables: read them, and not only the settings.

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
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        raise UsageError(f"The configuration file {path} is not valid TOML: {why}.") from None
    of_tables = {name: found.pop(name) for name in _TABLES if name in found}
    return _settings(path, text, found), _fields(path, text, of_tables) if with_tables else {}


def _settings(path: Path, text: str, found: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """The settings before the tables, and those of the table ``[audit]``."""
    settings = _audit(path, text, found.pop("audit", {}))
    for name, value in found.items():
        error = partial(_error, path, text, None, name)
        if name not in SETTINGS:
            hint = tables.hint(name, (*_TABLES, "audit", *SETTINGS))
            raise error(f"the table or key '{name}' is not known; {hint}")
        if isinstance(value, (dict, list, bool)) or not isinstance(value, (str, int)):
            raise error(f"'{name}' is a text or a whole number")
        if name in settings:
            raise error(f"'{name}' is also in the table [audit]; give it once")
        settings[name] = (_line(text, None, name), str(value))
    return settings


def _fields(path: Path, text: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``Settings`` that the other tables make."""
    if not found:
        return {}
    # Imported late: a file of settings alone need not wait for them, nor for pydantic.
    from seqferry.settings import channels, place_limits, server_table, shares

    parsers: dict[str, Callable[[object], Mapping[str, Any]]] = {
        "limit": lambda given: {"place_limits": place_limits.parse(given)},
        "notices": lambda given: {"notices": channels.parse(given)},
        "server": server_table.parse,
        "share": lambda given: {"shares": shares.parse(given)},
    }
    fields: dict[str, Any] = {}
    for name, given in found.items():
        try:
            fields |= parsers[name](given)
        except TableError as why:
            raise _error(path, text, name, why.key, str(why)) from None
    return fields


def _audit(path: Path, text: str, table: object) -> dict[str, tuple[int, str]]:
    """The table ``[audit]`` as settings."""
    if not isinstance(table, dict):
        raise _error(path, text, "audit", None, "'audit' is a table; write [audit]")
    found: dict[str, tuple[int, str]] = {}
    for key, value in cast("dict[str, Any]", table).items():
        if key not in AUDIT:
            hint = tables.hint(key, AUDIT)
            raise _error(path, text, "audit", key, f"the key '{key}' in [audit] is not known; {hint}")
        if not isinstance(value, str):
            raise _error(path, text, "audit", key, f"[audit] {key} is a text")
        found[f"audit_{key}"] = (_line(text, "audit", key), value)
    return found


def _error(path: Path, text: str, table: str | None, key: str | None, why: str) -> UsageError:
    """The error about a key, of a table or before all of them, or about a table as a whole."""
    if table == "notices":
        line = _notices_line(text, key or table)
    else:
        line = _line(text, None, str(table)) if key is None else _line(text, table, key)
    return UsageError(f"{path}, line {line}: {why}{'' if why.endswith('?') else '.'}")


def _notices_line(text: str, key: str) -> int:
    """The first line from the table of notices on that has the key, or else the first line of that table."""
    lines = list(enumerate(text.splitlines(), 1))
    start = next((number for number, line in lines if re.match(r"\s*\[\s*notices", line)), 1)
    named = re.compile(rf"\s*(\[.*[.\"'\s])?[\"']?{re.escape(key)}[\"']?\s*(=|\])")
    return next((number for number, line in lines if number >= start and named.match(line)), start)


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
