"""Channels of notices, as the configuration file names them. Their URLs hold secrets, and are never shown."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args
from urllib.parse import urlsplit

from seqferry.settings import tables
from seqferry.settings.tables import NO_OTHER_KEYS, Duration, Key, TableError

NoticeKind = Literal["finished", "person", "stalled", "vanished"]
"""``finished``: the transfer has ended, however. ``person``: failures that a person has to do something about.
``stalled``: nothing has moved for some time, or files of a share have waited for long. ``vanished``: a worker was
killed or cut off while it had work."""

_MAIL: Final = ("mailto", "mailtos")
_FEWEST_KEY_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Notices:
    """The table ``[notices]``."""

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    channels: tuple[Channel, ...] = ()
    stalled_after: Duration = 15 * 60.0
    """Seconds without progress after which a transfer has stalled."""
    files_wait_after: Duration = 3600.0
    """Seconds for which the oldest file of a share may wait for its upload."""

    @property
    def mail(self) -> Channel | None:
        """The first channel that sends mail, to addresses of its own or others."""
        return next((one for one in self.channels if urlsplit(one.url).scheme in _MAIL), None)

    def wanting(self, kind: NoticeKind) -> list[str]:
        """Names of the channels that take notices of this kind."""
        return [one.name for one in self.channels if kind in one.events]


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    return text


def _signing_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < _FEWEST_KEY_BYTES or not text.startswith("whsec_"):
        raise ValueError
    return key


_SECRET: Final = (
    f"it is 'whsec_' and at least {_FEWEST_KEY_BYTES} random bytes in base64; make one with: "
    'echo "whsec_$(head -c 32 /dev/urandom | base64)"'
)
_Url = Annotated[
    str,
    Key("it is no Apprise URL; write for example mailtos://user:password@host", pattern=r"^[a-z][a-z0-9+.-]*://\S"),
]
_Address = Annotated[str, Key("it is no address; write for example https://lims.example.org/hook", read=_address)]
_Events = Annotated[tuple[NoticeKind, ...], Key(f"write a list out of {', '.join(get_args(NoticeKind))}", min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTable:
    """A table ``[notices.NAME]``."""

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    url: _Url | None = None
    webhook: _Address | None = None
    secret: Annotated[bytes, Key(_SECRET, given=str, read=_signing_key)] | None = None
    events: _Events | None = None


def parse(table: object) -> Notices:
    """The table ``[notices]`` of a configuration file.

    Raises:
        TableError: the table or a value in it is not valid.
    """
    if not isinstance(table, dict):
        raise TableError("'notices' is a table; write [notices.NAME]", "notices")
    items = cast("dict[str, Any]", table).items()
    is_own = {"stalled_after", "files_wait_after"}.__contains__
    notices = tables.build(Notices, {key: value for key, value in items if is_own(key)}, "[notices]")
    return replace(notices, channels=tuple(_channel(key, value) for key, value in items if not is_own(key)))


def _channel(name: str, value: object) -> Channel:
    where = f"[notices.{name}]"
    if not isinstance(value, dict):
        raise TableError(f"'{name}' in [notices] is not known; channels are tables: {where}", name)
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        raise TableError(f"{where}: a channel's name is made of letters, digits, - and _", name)
    if "url" in value and "secret" in value and "webhook" not in value:
        raise TableError(f"{where} secret: this is for webhooks; Apprise URLs hold their own", "secret")
    table = tables.build(ChannelTable, cast("object", value), where)
    events = table.events or get_args(NoticeKind)
    if table.url is not None and table.webhook is None:
        return Channel(name, table.url, events=events)
    if table.webhook is None or table.url is not None:
        raise TableError(f"{where}: give one of url (an Apprise URL) and webhook (an https address)", name)
    if table.secret is None:
        raise TableError(f"{where} secret: {_SECRET}", "secret")
    return Channel(name, table.webhook, table.secret, events)
