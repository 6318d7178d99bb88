"""The table ``[server]`` of the configuration file: the policy, and how clients reach the server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from seqferry.settings import tables
from seqferry.settings.policy import Policy
from seqferry.settings.tables import NO_OTHER_KEYS, Key, texts


def _proxy(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not an IP address or network; write for example 127.0.0.1 or 10.0.0.0/8"
        ) from None
    return text


_EXAMPLE = 'write for example "https://ferry.example.org" or "https://example.org/ferry"'


def _public_url(text: str) -> str:
    """The address without its last slash, as it stands before the paths of the server."""
    parts = urlsplit(text)
    plain = parts.hostname and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not plain or parts.port == 0 or not text.isprintable() or " " in text:
        raise ValueError(f"it is not the address of a page; {_EXAMPLE}")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class Server(Policy):
    """The table ``[server]``.

    Attributes:
        trusted_proxies, public_url: as in ``Settings``.
    """

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    trusted_proxies: Annotated[tuple[str, ...], texts(_proxy, "127.0.0.1")] = ()
    public_url: Annotated[str, Key(f"it must be a text; {_EXAMPLE}", read=_public_url)] | None = None


def parse(table: object) -> dict[str, Any]:
    """Fields of ``Settings`` that the table makes.

    Raises:
        TableError: a key is not known, or a value does not fit.
    """
    server = tables.build(Server, table, "[server]")
    policy = Policy(**{key: getattr(server, key) for key in tables.keys(Policy)})
    return {"policy": policy, "trusted_proxies": server.trusted_proxies, "public_url": server.public_url}
