"""The key of the audit record: a file outside the state folder, so that a copy of the database is not enough to forge.

One line for each key: 64 hexadecimal digits, then a comment. The first line signs, the others verify what they have
signed before. With this key anyone can verify and forge (HMAC is symmetric).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from seqferry.model import encoding
from seqferry.model.errors import ConfigError
from seqferry.model.frozen import frozen

log: Final = logging.getLogger("seqferry.audit")

CREDENTIAL: Final = "seqferry-audit-key"
"""Name of the key among the credentials that systemd hands to a service (``LoadCredential=``)."""

_BYTES: Final = 32
_MOST_BYTES: Final = 64 * 1024


@frozen
class AuditKey:
    """One key. ``id`` names it in rows and says nothing of it."""

    id: str
    secret: bytes = field(repr=False)

    def sign(self, message: bytes) -> str:
        """HMAC-SHA256, in hexadecimal."""
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


class KeyRing:
    """The keys of this process, read on first use. Safe to use from many threads."""

    def __init__(self, path: Path | None) -> None:
        """Args: the file of keys; None: there are none, and records are chained without a key."""
        self.path: Final = path
        self.checked = False
        """The database was seen to be kept with a key of this ring."""
        self._lock = threading.Lock()
        self._keys: dict[str, AuditKey] | None = None
        self._has_warned = False

    def all(self) -> Mapping[str, AuditKey]:
        """All keys by their ids, the one that signs first; none while there is no file.

        Raises:
            ConfigError: the file cannot be used.
        """
        with self._lock:
            if self._keys is None and self.path is not None and os.path.lexists(self.path):
                self._keys = _read(self.path)
            return self._keys or {}

    def signing(self) -> AuditKey | None:
        """The key that signs; None while there is none."""
        return next(iter(self.all().values()), None)

    def make(self) -> AuditKey | None:
        """Make the file with a first key, unless it is there. None when it cannot be made.

        Raises:
            ConfigError: the file cannot be used.
        """
        if self.path is None:
            return None
        try:
            is_made = _write(self.path)
        except OSError as why:
            with self._lock:
                is_new, self._has_warned = not self._has_warned, True
            if is_new:  # each entry of the ledger asks for a key again
                log.warning(
                    "The audit record is kept without a key: %s cannot be made (%s). Name a file with [audit] key.",
                    self.path,
                    why.strerror or why,
                )
            return None
        if is_made:
            log.info("Made the audit key %s. Keep a copy of it apart from the database.", self.path)
        return self.signing()


def default_path(env: Mapping[str, str]) -> Path | None:
    """Default path of the key, when nothing names it; None in an environment without a home."""
    granted = env.get("CREDENTIALS_DIRECTORY", "")
    if granted and os.path.lexists(Path(granted) / CREDENTIAL):
        return Path(granted) / CREDENTIAL
    base = env.get("XDG_CONFIG_HOME", "")
    if base.startswith("/"):
        return Path(base) / "seqferry" / "audit.key"
    home = env.get("HOME", "")
    return Path(home) / ".config" / "seqferry" / "audit.key" if home.startswith("/") else None


def key_id(secret: bytes) -> str:
    return hashlib.sha256(b"seqferry audit key\0" + secret).hexdigest()[:16]


def _write(path: Path) -> bool:
    """Make the file whole or not at all; False when another process came first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{secrets.token_hex(_BYTES)} {datetime.now(UTC).isoformat(timespec='seconds')}\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".audit-key-")  # for its owner only
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    except FileExistsError:
        return False
    finally:
        Path(name).unlink()
    return True


def _read(path: Path) -> dict[str, AuditKey]:
    try:
        # Not to wait for what writes to a pipe. Links are followed: secrets of containers are such.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise _no_plain_file(path)
            _check_permissions(path, state)
            raw = file.read(_MOST_BYTES + 1)
    except OSError as why:
        if why.errno in (errno.EISDIR, errno.ENXIO):  # a folder; a socket
            raise _no_plain_file(path) from None
        raise ConfigError(f"Cannot read the audit key {path}: {why.strerror or why}.") from None
    try:
        lines = encoding.decode(raw).splitlines()
    except UnicodeDecodeError:
        lines = ["?"]
    found: dict[str, AuditKey] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if (key := _key(words[0])) is None:
            raise ConfigError(
                f"The audit key {path}, line {number}, is no key: write 64 hexadecimal digits (openssl rand -hex 32)."
            )
        found[key.id] = key
    if not found:
        raise ConfigError(f"The audit key {path} holds no key. Restore it; without it the record cannot go on.")
    return found


def _no_plain_file(path: Path) -> ConfigError:
    return ConfigError(f"The audit key {path} is no plain file. Name one with [audit] key.")


def _key(word: str) -> AuditKey | None:
    with contextlib.suppress(ValueError):
        secret = bytes.fromhex(word)
        if len(secret) == _BYTES:
            return AuditKey(key_id(secret), secret)
    return None


def _check_permissions(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise ConfigError(f"The audit key {path} belongs to another user. Name a file of your own with [audit] key.")
    # systemd grants its credentials to the service by means that the mode does not show.
    if stat.S_IMODE(found.st_mode) & 0o077 and path.name != CREDENTIAL:
        raise ConfigError(f"Other users may read or write the audit key {path}. Run: chmod 600 {path}")
