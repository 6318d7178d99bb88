"""Named tokens of HTTP clients. They are in the database, so that all servers at it know the same ones.

The owner's token is in a file of each state folder (``settings.tokens``), and counts at servers of that folder.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, Literal

from seqferry.db import token_rows
from seqferry.model.errors import ConfigError, ConflictError, NotFoundError
from seqferry.service.base import Base
from seqferry.settings import tokens
from seqferry.settings.tokens import Identity, NamedToken, Role

log: Final = logging.getLogger("seqferry.tokens")

MAX_TOKENS: Final = 1000

_LOOK_SECONDS: Final = 1.0
"""A removed token is refused after this time at the latest, by each server at the database."""


def add(service: Base, name: str, role: Role, expires_at: float | None = None) -> str:
    """Make a named token; returns it. It is stored as a digest only, so this is the one time it can be seen.

    Raises:
        UsageError: the name or the role cannot be one.
        ConflictError: the name is taken, or there are too many tokens.
        ConfigError: the database cannot be used.
    """
    tokens.check_name(name, role)
    made = tokens.new()
    with service.database.write() as connection:
        token_rows.lock_tokens(connection)
        known = token_rows.read_all(connection)
        if any(one.name == name for one in known):
            raise ConflictError(f"There is a token '{name}' already. Remove it first: seqferry token remove {name}")
        if len(known) >= MAX_TOKENS:
            raise ConflictError(f"There are {MAX_TOKENS} tokens already; remove those that are not needed.")
        token_rows.insert(connection, NamedToken(name, role, tokens.digest(made.encode()), time.time(), expires_at))
    return made


def remove(service: Base, name: str) -> None:
    """Remove a named token. Every running server refuses it within a second.

    Raises:
        NotFoundError: no token has this name.
        ConfigError: the database cannot be used.
    """
    with service.database.write() as connection:
        token_rows.lock_tokens(connection)
        if not token_rows.remove(connection, name, time.time()):
            raise NotFoundError(f"There is no token '{name[:80]}'. See all with: seqferry token list")


def list_tokens(service: Base) -> list[NamedToken]:
    """All named tokens, expired ones too.

    Raises:
        ConfigError: the database cannot be used.
    """
    with service.database.read() as connection:
        return token_rows.read_all(connection)


def find_tokens(service: Base, name: str) -> list[NamedToken] | Literal["removed", "unknown"]:
    """The tokens with this name, expired or not; ``unknown``: none is on record.

    Raises:
        ConfigError: the database cannot be used.
    """
    with service.database.read() as connection:
        known, is_on_record = token_rows.by_name(connection, name)
    return known or ("removed" if is_on_record else "unknown")


class TokenStore:
    """The tokens as a running server sees them. Reads file and database at most once a second.

    For one event loop: it reads the database in a thread, and requests with a token that is not the owner's wait.
    """

    def __init__(self, service: Base) -> None:
        self._service = service
        given = service.settings.token
        self._environment = None if given is None else tokens.digest(given.encode())
        self._owner: str | None = None
        self._named: dict[str, NamedToken] = {}
        self._fault: str | None = None
        self._next_owner = self._next_named = 0.0
        self._turn = asyncio.Lock()

    async def identify(self, token: bytes) -> Identity | None:
        """The owner of this token; None for a token that is not known, was removed or has expired.

        Raises:
            ConfigError: it is not the owner's, and the database cannot be asked.
        """
        digest = tokens.digest(token)
        if (own := self._own(digest)) is not None:
            return own
        async with self._turn:
            if time.monotonic() >= self._next_named:
                await asyncio.to_thread(self._look)
                self._next_named = time.monotonic() + _LOOK_SECONDS
        if self._fault is not None:
            raise ConfigError(self._fault)
        return self._identity_of(digest)

    def identify_from_memory(self, token: bytes) -> Identity | None:
        """As ``identify``, of what was read last: it waits for no database, and may have missed a new token."""
        digest = tokens.digest(token)
        return self._own(digest) or self._identity_of(digest)

    def _identity_of(self, digest: str) -> Identity | None:
        found = self._named.get(digest)
        return None if found is None or found.expired(time.time()) else Identity(found.name, found.role)

    def _own(self, digest: str) -> Identity | None:
        """The owner of this server, by its file as it is now, or by SEQFERRY_TOKEN."""
        if digest == self._environment:
            return Identity(tokens.ENVIRONMENT, "admin")
        now = time.monotonic()
        if now >= self._next_owner:
            self._next_owner = now + _LOOK_SECONDS
            try:
                token = tokens.read_owner(self._service.settings.state_dir)
                self._owner = tokens.digest(token.encode()) if len(token) >= tokens.MIN_LENGTH else None
            except OSError as why:
                if self._owner is not None:
                    log.error("the token of the state folder is refused: %s", why.strerror or why)
                self._owner = None
        return Identity(tokens.OWNER, "admin") if digest == self._owner else None

    def _look(self) -> None:
        try:
            self._named = {one.sha256: one for one in list_tokens(self._service)}
            self._fault = None
        except ConfigError as why:
            if self._fault is None:
                log.error("named tokens cannot be looked up: %s", why.message)
            self._fault = "The token cannot be looked up: the database of this server cannot be used now. Try again."
