"""Links by which others see how a delivery is doing, without a token: one transfer with its retries, or one label.

A link lets its holder read what ``deliveries`` shows of its scope, and the receipts of these transfers; nothing else,
and nothing after it has expired or was revoked. Of its token the database holds a digest. The token begins with the id
of the link, which is no secret; the rest are 256 random bits. What is made and revoked is on record.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import sqlalchemy as sa

from seqferry.db import delivery_mail_rows, report_ticket_rows, retry_chains, share_link_rows
from seqferry.db.record import events
from seqferry.model import labels
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.workers import SERVING_KINDS, URL
from seqferry.service.service import Service

DAY: Final = 86400.0
DEFAULT_LIFETIME_SECONDS: Final = 14 * DAY
MAX_LIFETIME_SECONDS: Final = 365 * DAY
"""A longer life is no expiry: the holder of a link of last year is forgotten."""

MAX_PER_SUBJECT: Final = 100
"""Links of one transfer, or of one label, that are valid or were made within a day: revoked and expired ones of today
count, so that a client that makes links in a loop, and revokes them, is stopped."""

MAX_LINKS: Final = 10_000
"""The same of all transfers and labels."""

LIFETIME: Final = "^[1-9][0-9]{0,4}[mhdw]$"
_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}

_ID_BYTES: Final = 6
_TOKEN: Final = re.compile(r"([0-9a-f]{12})[A-Za-z0-9_-]{43}")
_NO_DIGEST: Final = "0" * 64
"""Is compared with where there is no link of an id, so that both take the same time."""

_ADDRESSES_OF_ALL: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, and not listened at
_OWN: Final = ("127.0.0.1", "::1", "localhost")

State = Literal["active", "expired", "revoked"]


@frozen
class ShareLink:
    """A link without its token. Times are seconds since the epoch.

    Attributes:
        transfer_id: the first transfer of the chain of retries that it shows; None for one of a label.
        label: ``key=value``, or ``key`` for any value; None for one of a transfer.
    """

    id: str
    transfer_id: str | None
    label: str | None
    state: State
    created_at: float
    created_by: str
    expires_at: float
    revoked_at: float | None
    revoked_by: str | None


def parse_lifetime(lifetime: str) -> float:
    """Seconds of a lifetime as ``14d``, ``12h``, ``30m`` or ``2w``.

    Raises:
        UsageError: the text has another form.
    """
    if re.fullmatch(LIFETIME, lifetime) is None:
        raise UsageError(f"'{lifetime[:40]}' is not a time; write for example 14d, 12h or 30m.").about("expires")
    return int(lifetime[:-1]) * _SECONDS[lifetime[-1]]


def create(
    service: Service,
    *,
    actor: str,
    transfer_id: str | None = None,
    label: str | None = None,
    lifetime: float = DEFAULT_LIFETIME_SECONDS,
) -> tuple[ShareLink, str]:
    """Make a link for a transfer with its retries, or for a label; returns it with its token, which is shown once.

    Raises:
        NotFoundError: no transfer has this id.
        UsageError: neither or both are given, the label is none, or the lifetime is longer than a year.
        ConflictError: there are too many links.
        ConfigError: the record is kept with an audit key that this process has not.
    """
    if (transfer_id is None) == (label is None):
        raise UsageError("Say what the link shows: a transfer, or a label.").about("label")
    if not 0 < lifetime <= MAX_LIFETIME_SECONDS:
        raise UsageError(
            f"A link is valid for at most {MAX_LIFETIME_SECONDS / DAY:.0f} days; give a shorter time."
        ).about("expires")
    shown = None if label is None else _check_label(label)
    root = None if transfer_id is None else find_chain_root(service, service.status(transfer_id).id)
    now = time.time()
    link_id = secrets.token_hex(_ID_BYTES)
    token = link_id + secrets.token_urlsafe(32)
    with service.database.write() as connection:
        _check_room(connection, now, root, shown)
        share_link_rows.insert(
            connection,
            link_id=link_id,
            digest=_digest(token),
            transfer_id=root,
            label=shown,
            expires_at=now + lifetime,
            at=now,
            actor=actor,
        )
        if root is not None:
            data = {"link": link_id, "expires_at": now + lifetime}
            events.append(connection, root, now, "shared", actor, data)
        row = share_link_rows.by_id(connection, link_id)
    assert row is not None
    return _of(row, now), token


def _check_room(connection: sa.Connection, now: float, transfer_id: str | None, label: str | None) -> None:
    """Raise ConflictError where there are as many links as may be."""
    later = "Revoke those that are not used (seqferry share --list), and try again a day after they were made."
    if share_link_rows.count(connection, now, transfer_id, label) >= MAX_PER_SUBJECT:
        of = f"transfer {transfer_id}" if label is None else f"the label {label}"
        raise ConflictError(f"{MAX_PER_SUBJECT} share links of {of} are valid or were made within a day. {later}")
    if share_link_rows.count(connection, now) >= MAX_LINKS:
        raise ConflictError(f"{MAX_LINKS:,} share links are valid or were made within a day. {later}")


def _check_label(label: str) -> str:
    try:
        [(key, value)] = labels.parse_filter([label])
        if value is not None:
            labels.Description(labels={key: value}).check()
    except UsageError as why:
        raise why.about("label") from None
    return label


def find_chain_root(service: Service, transfer_id: str) -> str:
    """The first transfer of the chain of retries that this one is in."""
    with service.database.read() as connection:
        return retry_chains.find_root(connection, transfer_id)


def list_links(service: Service, *, transfer_id: str | None = None, limit: int = 1000) -> list[ShareLink]:
    """The newest links, newest first, expired and revoked ones too; with a transfer those of its chain alone.

    Raises:
        NotFoundError: no transfer has this id.
    """
    root = None if transfer_id is None else find_chain_root(service, service.status(transfer_id).id)
    now = time.time()
    with service.database.read() as connection:
        return [_of(row, now) for row in share_link_rows.newest(connection, root, limit)]


def find_link(service: Service, link_id: str) -> ShareLink:
    """One link.

    Raises:
        NotFoundError: there is none.
    """
    with service.database.read() as connection:
        row = share_link_rows.by_id(connection, link_id)
    if row is None:
        raise _unknown_error(link_id)
    return _of(row, time.time())


def revoke(service: Service, link_id: str, *, actor: str) -> ShareLink:
    """End a link immediately, with downloads that have not begun; a link that was revoked before stays as it is.

    Raises:
        NotFoundError: there is none.
        ConfigError: the record is kept with an audit key that this process has not.
    """
    now = time.time()
    with service.database.write() as connection:
        row = share_link_rows.by_id(connection, link_id, lock=True)
        if row is None:
            raise _unknown_error(link_id)
        if row.revoked_at is None:
            share_link_rows.revoke(connection, link_id, now, actor)
            report_ticket_rows.delete_for_link(connection, link_id)
            delivery_mail_rows.delete_for_link(connection, link_id)
            if row.transfer_id is not None:
                events.append(connection, row.transfer_id, now, "share_revoked", actor, {"link": link_id})
            row = share_link_rows.by_id(connection, link_id)
    assert row is not None
    return _of(row, now)


def find_by_token(service: Service, token: str) -> ShareLink | None:
    """The valid link of a token; None for one that is unknown, has expired or was revoked."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    with service.database.read() as connection:
        row = share_link_rows.by_id(connection, found[1])
    is_right = hmac.compare_digest(_digest(token), _NO_DIGEST if row is None else row.digest)
    if row is None or not is_right:
        return None
    link = _of(row, time.time())
    return link if link.state == "active" else None


def url(service: Service, token: str) -> str:
    """The address that is sent to people. The token is in the fragment, which no browser sends and no proxy logs.

    Raises:
        UsageError: nothing says where the page is.
    """
    return f"{base_url(service)}/#/d/{token}"


def base_url(service: Service) -> str:
    """Base URL of the page: from the configuration, else where a server listens.

    Raises:
        UsageError: neither is known.
    """
    if service.settings.public_url is not None:
        return service.settings.public_url
    for one in service.workers():
        listens = one.activity.facts.get(URL)
        if one.process.kind in SERVING_KINDS and one.alive and isinstance(listens, str):
            return _reachable(listens, one.process.host)
    raise UsageError(
        'Nothing says at which address people reach the page: write public_url = "https://..." into [server] of the '
        "configuration file, or start a server with: seqferry serve"
    )


def is_loopback(address: str) -> bool:
    """True for a loopback address, which other machines cannot open."""
    return urlsplit(address).hostname in _OWN


def _reachable(address: str, host: str) -> str:
    """The address with the name of the machine where it stands for all of its addresses."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{host}:{parts.port}" if parts.hostname in _ADDRESSES_OF_ALL else address


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _unknown_error(link_id: str) -> NotFoundError:
    return NotFoundError(f"There is no share link '{link_id[:40]}'. See all with: seqferry share --list")


def _of(row: sa.Row[Any], now: float) -> ShareLink:
    state: State = "active"
    if row.revoked_at is not None:
        state = "revoked"
    elif now >= row.expires_at:
        state = "expired"
    return ShareLink(
        id=row.id,
        transfer_id=row.transfer_id,
        label=row.label,
        state=state,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
    )
