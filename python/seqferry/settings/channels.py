"""Channels of notices, as the configuration file names them. Their URLs hold secrets, and are never shown."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, cast, get_args
from urllib.parse import urlsplit

from seqferry.model.frozen import frozen

NoticeKind = Literal["finished", "person", "stalled", "vanished"]
"""``finished``: the transfer has ended, however. ``person``: failures that a person has to do something about.
``stalled``: nothing has moved for some time, or files of a share have waited for long. ``vanished``: a worker was
killed or cut off while it had work."""

STALLED_AFTER: Final = 15 * 60.0
FILES_WAIT_AFTER: Final = 3600.0
_DURATION: Final = r"([1-9][0-9]{0,5})([smh])"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MAIL: Final = ("mailto", "mailtos")
_KEYS: Final = ("url", "webhook", "secret", "events")
_FEWEST_KEY_BYTES: Final = 24


@frozen
class Channel:
    """A destination of notices: an ``url`` of Apprise, or a ``webhook`` that gets signed JSON."""

    name: str
    url: str = field(repr=False)
    secret: bytes | None = field(default=None, repr=False)
    """Key of a webhook's signatures."""
    events: tuple[NoticeKind, ...] = get_args(NoticeKind)

    @property
    def is_webhook(self) -> bool:
        return self.secret is not None

    @property
    def shown(self) -> str:
        """Scheme and host: all of the URL that is no secret. Some services have a secret in the place of the host."""
        parts = urlsplit(self.url)
        host = parts.hostname if self.is_webhook or parts.scheme.startswith(("mail", "json", "xml", "form")) else None
        return f"{parts.scheme}://{host or '...'}"


@frozen
class Notices:
    """The table ``[notices]``."""

    channels: tuple[Channel, ...] = ()
    stalled_after: float = STALLED_AFTER
    """Seconds without progress after which a transfer has stalled."""
    files_wait_after: float = FILES_WAIT_AFTER
    """Seconds for which the oldest file of a share may wait for its upload."""

    @property
    def mail(self) -> Channel | None:
        """The first channel that sends mail, to addresses of its own or others."""
        return next((one for one in self.channels if urlsplit(one.url).scheme in _MAIL), None)

    def wanting(self, kind: NoticeKind) -> list[str]:
        """Names of the channels that take notices of this kind."""
        return [one.name for one in self.channels if kind in one.events]


class ChannelError(ValueError):
    """An error in the table of notices. Never shows a value that may be a secret.

    Attributes:
        key: the key or the table that it is about.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def parse(table: object) -> Notices:
    """The table ``[notices]`` of a configuration file.

    Raises:
        ChannelError: the table or a value in it is not valid.
    """
    if not isinstance(table, dict):
        raise ChannelError("notices", "'notices' is a table; write [notices.NAME]")
    found: list[Channel] = []
    durations = {"stalled_after": STALLED_AFTER, "files_wait_after": FILES_WAIT_AFTER}
    for name, value in cast("dict[str, Any]", table).items():
        if name in durations:
            try:
                durations[name] = parse_duration(value)
            except ValueError as why:
                raise ChannelError(name, f"{name}: {why}") from None
        elif not isinstance(value, dict):
            raise ChannelError(name, f"'{name}' in [notices] is not known; channels are tables: [notices.{name}]")
        else:
            found.append(_channel(name, cast("dict[str, Any]", value)))
    return Notices(tuple(found), **durations)


def parse_duration(value: object) -> float:
    """Seconds of a duration in the configuration file.

    Raises:
        ValueError: it is not a duration.
    """
    match = re.fullmatch(_DURATION, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('it is a duration; write for example "15m", "90s" or "2h"')
    return float(int(match[1]) * _SECONDS[match[2]])


def _channel(name: str, table: Mapping[str, Any]) -> Channel:
    where = f"[notices.{name}]"
    if not re.fullmatch(_NAME, name):
        raise ChannelError(name, f"{where}: a channel's name is made of letters, digits, - and _")
    for key in table:
        if key not in _KEYS:
            raise ChannelError(key, f"{where}: the key '{key}' is not known; known are: {', '.join(_KEYS)}")
    for key in ("url", "webhook", "secret"):
        if key in table and not isinstance(table[key], str):
            raise ChannelError(key, f"{where}: {key} is a text")
    if ("url" in table) == ("webhook" in table):
        raise ChannelError(name, f"{where}: give one of url (an Apprise URL) and webhook (an https address)")
    events = _events(where, table.get("events", list(get_args(NoticeKind))))
    if "url" in table:
        if "secret" in table:
            raise ChannelError("secret", f"{where}: secret is for webhooks; Apprise URLs hold their own")
        if not re.match(r"[a-z][a-z0-9+.-]*://\S", table["url"]):
            raise ChannelError("url", f"{where}: url is no Apprise URL; write for example mailtos://user:password@host")
        return Channel(name, table["url"], events=events)
    address = str(table["webhook"])
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ChannelError(
            "webhook", f"{where}: webhook is an address; write for example https://lims.example.org/hook"
        )
    return Channel(name, address, _key(where, table.get("secret", "")), events)


def _key(where: str, secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < _FEWEST_KEY_BYTES or not secret.startswith("whsec_"):
        raise ChannelError(
            "secret",
            f"{where}: secret is 'whsec_' and at least {_FEWEST_KEY_BYTES} random bytes in base64; make one with: "
            'echo "whsec_$(head -c 32 /dev/urandom | base64)"',
        )
    return key


def _events(where: str, value: object) -> tuple[NoticeKind, ...]:
    known = get_args(NoticeKind)
    given = cast("list[object]", value) if isinstance(value, list) else []
    if not given or any(one not in known for one in given):
        raise ChannelError("events", f"{where}: events is a list out of {', '.join(known)}")
    return tuple(cast("list[NoticeKind]", given))
