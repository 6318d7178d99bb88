"""Notices to be sent, one row for each channel. They are recorded with the change that they report, and sent later.

A sender claims a row by moving its next attempt into the future, so that a killed sender delays it and loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import sqlalchemy as sa

from seqferry.db.tables import notice, object_

PENDING: Final = "pending"
SENT: Final = "sent"
GIVEN_UP: Final = "given_up"

SubjectKind = Literal["transfer", "worker", "mail", "share"]
"""Kinds of things that notices are about. Stored in rows. ``mail``: one that the holder of a share link requested.
``share``: one of a gateway."""


class Subject(NamedTuple):
    """Subject of a notice."""

    kind: SubjectKind
    id: str


def subject_of(row: sa.Row[Any]) -> Subject:
    """The subject of a row of ``notice``."""
    return Subject(row.subject_kind, row.subject_id)


def record(
    connection: sa.Connection, subject: Subject, kind: str, channels: Iterable[str], at: float, episode: int = 0
) -> None:
    """Add a notice for each channel, unless it is there. ``episode`` distinguishes several of one kind."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    rows: list[dict[str, Any]] = [
        {
            "subject_kind": subject.kind,
            "subject_id": subject.id,
            "kind": kind,
            "episode": episode,
            "channel": channel,
            "state": PENDING,
            "created_at": at,
            "next_at": at,
        }
        for channel in channels
    ]
    if rows:
        connection.execute(insert(notice).on_conflict_do_nothing(), rows)


def find_due(connection: sa.Connection, channels: Sequence[str], now: float, limit: int) -> list[sa.Row[Any]]:
    """Notices for these channels whose next attempt is due, the oldest first."""
    query = sa.select(notice).where(
        notice.c.state == PENDING,
        notice.c.next_at <= now,
        notice.c.channel.in_(channels),
        notice.c.subject_kind.in_(get_args(SubjectKind)),
    )
    return list(connection.execute(query.order_by(notice.c.next_at).limit(limit)))


def claim(connection: sa.Connection, row: sa.Row[Any], until: float) -> bool:
    """Claim a due notice until then; False when another sender has it."""
    taken = connection.execute(
        _of(row)
        .where(notice.c.next_at == row.next_at, notice.c.state == PENDING)
        .values(next_at=until, attempts=notice.c.attempts + 1)
    )
    return taken.rowcount == 1


def record_attempt(
    connection: sa.Connection, row: sa.Row[Any], state: str, *, next_at: float, at: float | None, error: str | None
) -> None:
    """Record the result of an attempt to send a notice."""
    connection.execute(_of(row).values(state=state, next_at=next_at, sent_at=at, error=error))


def _of(row: sa.Row[Any]) -> sa.Update:
    return notice.update().where(
        notice.c.subject_kind == row.subject_kind,
        notice.c.subject_id == row.subject_id,
        notice.c.kind == row.kind,
        notice.c.episode == row.episode,
        notice.c.channel == row.channel,
    )


def find_undelivered(connection: sa.Connection, limit: int) -> list[sa.Row[Any]]:
    """Notices that were not delivered, or not yet, the newest first."""
    query = sa.select(notice).where(notice.c.state != SENT).order_by(notice.c.created_at.desc())
    return list(connection.execute(query.limit(limit)))


def newest(connection: sa.Connection, state: str | None, limit: int) -> list[sa.Row[Any]]:
    """The newest notices, newest first: those in a state, or (None) all."""
    query = sa.select(notice).order_by(notice.c.created_at.desc(), notice.c.subject_id, notice.c.channel)
    if state is not None:
        query = query.where(notice.c.state == state)
    return list(connection.execute(query.limit(limit)))


def find_needing_person(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, with objects whose failure a person has to fix."""
    query = sa.select(object_.c.transfer_id).where(
        object_.c.transfer_id.in_(list(ids)), object_.c.error_class.in_(("person", "credentials"))
    )
    return set(connection.execute(query.distinct()).scalars())
