"""Named tokens of clients, in the caller's transaction. Only the SHA-256 of a token is stored."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.tables import token
from seqferry.settings.tokens import NamedToken

_REMOVED_KEPT: Final = 5000
"""Removed tokens that stay on record, the latest: enough for questions, and still a small table."""


def lock_tokens(connection: sa.Connection) -> None:
    """Lock the tokens against other changes until the transaction ends, so that names are unique."""
    acquire(connection, AdvisoryLock.TOKENS)


def read_all(connection: sa.Connection) -> list[NamedToken]:
    """All tokens that were not removed, also expired ones, the oldest first."""
    query = sa.select(token).where(token.c.removed_at.is_(None)).order_by(token.c.created_at, token.c.name)
    return [_token_of(row) for row in connection.execute(query)]


def by_name(connection: sa.Connection, name: str) -> tuple[list[NamedToken], bool]:
    """Tokens of this name, and whether one of this name, also a removed one, is on record."""
    rows = connection.execute(sa.select(token).where(token.c.name == name)).all()
    return [_token_of(row) for row in rows if row.removed_at is None], bool(rows)


def insert(connection: sa.Connection, new: NamedToken) -> None:
    row = {"digest": new.sha256, "name": new.name, "role": new.role}
    connection.execute(token.insert().values(**row, created_at=new.created_at, expires_at=new.expires_at))


def remove(connection: sa.Connection, name: str, now: float) -> int:
    """Remove the tokens of this name; returns their number."""
    gone = token.update().where(token.c.name == name, token.c.removed_at.is_(None)).values(removed_at=now)
    count = connection.execute(gone).rowcount
    of_removed = sa.select(token.c.digest).where(token.c.removed_at.is_not(None))
    latest = of_removed.order_by(token.c.removed_at.desc(), token.c.digest).limit(_REMOVED_KEPT)
    old = token.c.removed_at.is_not(None) & token.c.digest.not_in(latest.scalar_subquery())
    connection.execute(token.delete().where(old))
    return count


def _token_of(row: sa.Row[tuple[object, ...]]) -> NamedToken:
    return NamedToken(row.name, row.role, row.digest, row.created_at, row.expires_at)
