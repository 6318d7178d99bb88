"""Values of settings, read from their texts. A ValueError says what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

from seqferry.model.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import URL

LockMode = Literal["COMPLIANCE", "GOVERNANCE"]

_POSTGRES_SCHEMES: Final = ("postgres", "postgresql", "postgresql+psycopg")
_NO_ADDRESS: Final = "not a PostgreSQL address; write postgresql://user@host:5432/database, or unset it for SQLite"


def anchor_place(text: str) -> str:
    match = re.fullmatch(r"s3://([a-z0-9][a-z0-9._-]{1,62})(/[^*?]*)?", text)
    if match is None:
        raise ValueError(f"'{text}' is no place for anchors; write s3://bucket/prefix")
    return text.rstrip("/")


def endpoint_url(text: str) -> str:
    if "@" in text or not re.match(r"https?://[^/]", text):
        raise ValueError("that is no endpoint URL; write for example https://s3.example.org, without credentials")
    return text


def retention(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,4}[hdwy]", text):
        raise ValueError(f"'{text}' is no time to keep anchors locked; write for example 90d or 10y")
    return text


def lock_mode(text: str) -> LockMode:
    if (mode := text.upper()) not in ("COMPLIANCE", "GOVERNANCE"):
        raise ValueError(f"'{text}' is no mode of Object Lock; write COMPLIANCE or GOVERNANCE")
    return mode


def whole_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"'{text}' is not a whole number")
    if len(text) > 18:
        raise ValueError("that many digits make no sense")
    return int(text)


def postgres_address(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    # The text itself may hold a password, so it is not shown.
    if not separator or scheme not in _POSTGRES_SCHEMES or not rest:
        raise ValueError(_NO_ADDRESS)
    return f"postgresql+psycopg://{_with_hosts_as_options(rest)}"


_HOSTS: Final = (
    # No @ after the hosts: what stands before one is part of a user name or password.
    r"(?P<user>[^/?]*@)?(?P<hosts>[^@/?]*,[^@/?]*)(?P<path>/[^?@]*)?(?:\?(?P<query>[^@]*))?"
)
_HOST: Final = r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:,]+))(?::(?P<port>[0-9]*))?"


def _with_hosts_as_options(rest: str) -> str:
    """An address of several hosts, as PostgreSQL's own clients take it, in the form that SQLAlchemy reads."""
    address = re.fullmatch(_HOSTS, rest, flags=re.DOTALL)
    if address is None:
        return rest
    hosts = [re.fullmatch(_HOST, one) for one in address["hosts"].split(",")]
    found = [one for one in hosts if one is not None]
    if len(found) < len(hosts):
        raise ValueError(_NO_ADDRESS)
    names = ",".join(one["literal"] or one["name"] for one in found)
    ports = ",".join(one["port"] or "5432" for one in found)
    more = f"&{address['query']}" if address["query"] else ""
    return f"{address['user'] or ''}{address['path'] or '/'}?host={names}&port={ports}{more}"


def database_label(parsed: Callable[[], URL | None]) -> str:
    """An address for messages: host, port and name, never a user name, a password or an option."""
    try:
        url = parsed()
    except UsageError:
        url = None
    if url is None:
        return "PostgreSQL"
    if url.host is None and "," in (hosts := str(url.query.get("host", ""))):
        ports = str(url.query.get("port", "")).split(",")
        pairs = zip_longest(hosts.split(","), ports if len(ports) > 1 else (), fillvalue="")
        shown = ",".join(_host_and_port(host, port) for host, port in pairs)
    else:
        shown = _host_and_port(url.host or "", "" if url.port is None else str(url.port))
    return f"postgresql://{shown}/{url.database or ''}"


def _host_and_port(host: str, port: str) -> str:
    return f"{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"


def parse_address(address: str, variable: str) -> URL:
    """An address in its parts. The error shows no part of it, since any may be of the password."""
    # Imported here: `seqferry --help` need not wait for SQLAlchemy.
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise UsageError(f"{variable}: {_NO_ADDRESS}.") from None
    # After a password with @ and /, the rest of the password is host and database, which messages show.
    in_database = url.password is not None and "@" in (url.database or "")
    if in_database or "@" in (url.host or ""):
        raise UsageError(f"{variable}: it holds two @; write one in a user name or password as %40.")
    return url
