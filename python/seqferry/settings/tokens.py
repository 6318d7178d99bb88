"""Tokens of HTTP clients: names, roles and the token of the owner. Named ones are in the database (``service.tokens``).

``token`` in the state folder, readable by its owner alone, holds the token of the owner in plain text: ``seqferry
serve`` makes it on its first start, and commands on this machine read it. Named tokens are kept as SHA-256 digests: a
token of 256 random bits needs no slower hash, and looking it up by its digest needs no comparison in constant time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.frozen import frozen
from seqferry.places import private_files

Role = Literal["read", "submit", "admin"]
"""Each includes the ones before it."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)

OWNER: Final = "local"
"""Name of the token in the file ``token``."""

ENVIRONMENT: Final = "env"
"""Name of the token in SEQFERRY_TOKEN."""

MIN_LENGTH: Final = 16
"""Characters of SEQFERRY_TOKEN: 16 random letters and digits have 95 bits."""

MAX_FILE: Final = 1024 * 1024
"""Bytes of the file that are read."""

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


@frozen
class Identity:
    """The owner of a token that a client presented."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@frozen
class NamedToken:
    """A token that was given to a client. Times are seconds since the epoch."""

    name: str
    role: Role
    sha256: str
    created_at: float
    expires_at: float | None = None

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at


def owner_file(state_dir: Path) -> Path:
    return state_dir / "token"


def owner_token(state_dir: Path) -> str:
    """The token in the file ``token``, made when there is none. The folder exists.

    Raises:
        ConfigError: the file belongs to another user, holds no token, or cannot be read or written.
    """
    path = owner_file(state_dir)
    try:
        if not path.exists():
            with _hold_lock(state_dir):  # the first of several processes makes it
                if not path.exists():
                    private_files.write(path, f"{new()}\n")
        text = _read(path).strip()
    except OSError as why:
        raise ConfigError(f"Cannot use the token file {path}: {why.strerror or why}.") from None
    if len(text) < MIN_LENGTH:
        raise ConfigError(f"The token file {path} holds no token; remove it, and the next start makes a new one.")
    return text


def check_environment_token(token: str) -> None:
    """Refuse a value of SEQFERRY_TOKEN that is easy to guess or cannot be sent.

    Raises:
        UsageError: the value is too short, or holds characters that HTTP headers cannot. The error does not show it.
    """
    how = "Make one with `openssl rand -hex 32`, or unset it: clients then use the token in the state folder."
    if len(token) < MIN_LENGTH:
        raise UsageError(f"SEQFERRY_TOKEN has {len(token)} characters, and at least {MIN_LENGTH} are needed. {how}")
    if not all("!" <= character <= "~" for character in token):
        raise UsageError(f"SEQFERRY_TOKEN holds characters that cannot be sent in an HTTP header. {how}")


def check_name(name: str, role: str) -> None:
    """Refuse what cannot be the name or the role of a token.

    Raises:
        UsageError: it cannot.
    """
    if not re.fullmatch(_NAME, name) or name in (OWNER, ENVIRONMENT):
        raise UsageError(
            f"'{name[:80]}' cannot be the name of a token. Use up to 64 letters, digits, dots, dashes and underscores; "
            f"'{OWNER}' and '{ENVIRONMENT}' are taken."
        )
    if role not in ROLES:
        raise UsageError(f"'{role}' is not a role; choose one of {', '.join(ROLES)}.")


def read_owner(state_dir: Path) -> str:
    """The owner's token, as a server reads it anew.

    Raises:
        OSError: the file cannot be read, is no plain file of this user's, or is too large.
    """
    return _read(owner_file(state_dir)).strip()


def new() -> str:
    return "sfy_" + secrets.token_urlsafe(32)


def digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _read(path: Path) -> str:
    """The file's text.

    Raises:
        OSError: the file cannot be read, is no plain file of this user's, or is too large.
    """
    return private_files.read(path, MAX_FILE)


@contextmanager
def _hold_lock(state_dir: Path) -> Generator[None]:
    path = state_dir / "tokens.lock"
    try:
        descriptor = private_files.open_private(path, os.O_RDWR | os.O_CREAT)
    except OSError as why:
        raise ConfigError(
            f"Cannot lock the tokens in {state_dir}: {why.strerror or why}. Check --state-dir and its permissions."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
