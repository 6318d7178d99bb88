"""Tokens of HTTP clients. They live in the state folder, readable by its owner alone.

``token`` holds the token of the owner in plain text: ``seqferry serve`` makes it on its first start, and commands on
this machine read it. ``tokens.json`` holds named tokens as SHA-256 digests: a token of 256 random bits needs no slower
hash, and looking it up by its digest needs no comparison in constant time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from seqferry.model.errors import ConfigError, ConflictError, NotFoundError, UsageError
from seqferry.places import private_files

log: Final = logging.getLogger("seqferry.tokens")

Role = Literal["read", "submit", "admin"]
"""Each includes the ones before it."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)

OWNER: Final = "local"
"""Name of the token in the file ``token``."""

ENVIRONMENT: Final = "env"
"""Name of the token in SEQFERRY_TOKEN."""

MIN_LENGTH: Final = 16
"""Characters of SEQFERRY_TOKEN: 16 random letters and digits have 95 bits."""

MAX_TOKENS: Final = 1000
_REMOVED_KEPT: Final = 5000
"""Names of removed tokens that are kept: with all tokens they fit into ``_MAX_FILE``."""
_MAX_FILE: Final = 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOOK_SECONDS: Final = 1.0
"""A removed token is refused after this time at the latest."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a token that a client presented."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class NamedToken:
    """One line of ``tokens.json``. Times are seconds since the epoch."""

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
            with _locked(state_dir):  # the first of several processes makes it
                if not path.exists():
                    private_files.write(path, f"{_new()}\n")
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


def add(state_dir: Path, name: str, role: Role, expires_at: float | None = None) -> str:
    """Make a named token; returns it. It is stored as a digest only, so this is the one time it can be seen.

    Raises:
        UsageError: the name or the role cannot be one.
        ConflictError: the name is taken, or there are too many tokens.
        ConfigError: the file cannot be used.
    """
    if not _NAME.fullmatch(name) or name in (OWNER, ENVIRONMENT):
        raise UsageError(
            f"'{name[:80]}' cannot be the name of a token. Use up to 64 letters, digits, dots, dashes and underscores; "
            f"'{OWNER}' and '{ENVIRONMENT}' are taken."
        )
    if role not in ROLES:
        raise UsageError(f"'{role}' is not a role; choose one of {', '.join(ROLES)}.")
    token = _new()
    with _locked(state_dir):
        known = listed(state_dir)
        if any(one.name == name for one in known):
            raise ConflictError(f"There is a token '{name}' already. Remove it first: seqferry token remove {name}")
        if len(known) >= MAX_TOKENS:
            raise ConflictError(f"There are {MAX_TOKENS} tokens already; remove those that are not needed.")
        made = NamedToken(name, role, _digest(token.encode()), time.time(), expires_at)
        _store(state_dir, [*known, made], [one for one in _removed(state_dir) if one != name])
    return token


def remove(state_dir: Path, name: str) -> None:
    """Remove a named token. A running server refuses it within a second.

    Raises:
        NotFoundError: no token has this name.
        ConfigError: the file cannot be used.
    """
    with _locked(state_dir):
        known = listed(state_dir)
        kept = [one for one in known if one.name != name]
        if len(kept) == len(known):
            raise NotFoundError(f"There is no token '{name[:80]}'. See all with: seqferry token list")
        _store(state_dir, kept, [*(one for one in _removed(state_dir) if one != name), name])


def listed(state_dir: Path) -> list[NamedToken]:
    """All named tokens, expired ones too.

    Raises:
        ConfigError: the file cannot be read, or is damaged.
    """
    path = _names_file(state_dir)
    try:
        text = _read(path)
    except FileNotFoundError:
        return []
    except OSError as why:
        raise ConfigError(f"Cannot read the tokens in {path}: {why.strerror or why}.") from None
    try:
        return [_parsed(one) for one in json.loads(text)["tokens"]]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"The tokens in {path} cannot be read: the file is damaged. Remove it and add them anew."
        ) from None


def standing(state_dir: Path, name: str) -> NamedToken | Literal["removed", "unknown"]:
    """The named token of today, expired or not; ``unknown``: this folder never had one of this name, as far as is kept.

    Raises:
        ConfigError: the file cannot be read, or is damaged.
    """
    known = next((one for one in listed(state_dir) if one.name == name), None)
    if known is not None:
        return known
    return "removed" if name in _removed(state_dir) else "unknown"


class TokenStore:
    """The tokens as a running server sees them. Looks at the files at most once a second, and reads what changed.

    A file that cannot be read holds no token. Not safe to use from several threads.
    """

    def __init__(self, state_dir: Path, environment_token: str | None = None) -> None:
        self._state_dir = state_dir
        self._environment = None if environment_token is None else _digest(environment_token.encode())
        self._known: dict[str, tuple[Identity, float | None]] = {}
        self._seen: tuple[object, ...] | None = None
        self._faults: list[str] = []
        self._next_look = 0.0

    def identify(self, token: bytes) -> Identity | None:
        """The owner of this token; None for a token that is not known, was removed or has expired."""
        self._refresh()
        found = self._known.get(_digest(token))
        if found is None or (found[1] is not None and time.time() >= found[1]):
            return None
        return found[0]

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        seen = tuple(_signature(path) for path in (owner_file(self._state_dir), _names_file(self._state_dir)))
        if seen == self._seen:
            return
        known: dict[str, tuple[Identity, float | None]] = {}
        faults: list[str] = []
        try:
            for one in listed(self._state_dir):
                known[one.sha256] = (Identity(one.name, one.role), one.expires_at)
        except ConfigError as why:
            faults.append(f"named tokens are refused: {why.message}")
        try:
            token = _read(owner_file(self._state_dir)).strip()
            if len(token) >= MIN_LENGTH:
                known[_digest(token.encode())] = (Identity(OWNER, "admin"), None)
        except OSError as why:
            faults.append(f"the token of the state folder is refused: {why.strerror or why}")
        for fault in faults:
            if fault not in self._faults:
                log.error("%s", fault)
        # What could not be read is read again at the next look, though it has not changed.
        self._faults, self._seen = faults, None if faults else seen
        if self._environment is not None:
            known[self._environment] = (Identity(ENVIRONMENT, "admin"), None)
        self._known = known


def _names_file(state_dir: Path) -> Path:
    return state_dir / "tokens.json"


def _new() -> str:
    return "sfy_" + secrets.token_urlsafe(32)


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _parsed(data: Any) -> NamedToken:
    name, role, sha256 = data["name"], data["role"], data["sha256"]
    created_at, expires_at = data["created_at"], data["expires_at"]
    texts = isinstance(name, str) and isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256)
    times = isinstance(created_at, (int, float)) and isinstance(expires_at, (int, float, type(None)))
    if not texts or not times or role not in ROLES:
        raise ValueError(name)
    return NamedToken(name, role, sha256, created_at, expires_at)


def _removed(state_dir: Path) -> list[str]:
    """Names of tokens that were removed, the latest last: what was begun with them may go on by itself."""
    try:
        found = json.loads(_read(_names_file(state_dir))).get("removed", [])
    except (OSError, ValueError, AttributeError):
        return []  # ``listed`` says what is wrong
    return [one for one in cast("list[Any]", found) if isinstance(one, str)] if isinstance(found, list) else []


def _store(state_dir: Path, tokens: list[NamedToken], removed: list[str]) -> None:
    path = _names_file(state_dir)
    facts = {"tokens": [asdict(one) for one in tokens], "removed": removed[-_REMOVED_KEPT:]}
    try:
        private_files.write(path, json.dumps(facts, indent=1) + "\n")
    except OSError as why:
        raise ConfigError(f"Cannot write the tokens to {path}: {why.strerror or why}.") from None


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> str:
    """The file's text.

    Raises:
        OSError: the file cannot be read, is no plain file of this user's, or is too large.
    """
    return private_files.read(path, _MAX_FILE)


@contextmanager
def _locked(state_dir: Path) -> Generator[None]:
    path = state_dir / "tokens.lock"
    try:
        descriptor = private_files.opened(path, os.O_RDWR | os.O_CREAT)
    except OSError as why:
        raise ConfigError(
            f"Cannot lock the tokens in {state_dir}: {why.strerror or why}. Check --state-dir and its permissions."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
