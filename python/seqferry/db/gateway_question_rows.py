"""Questions to gateways about folders of their shares, in the caller's transaction. Times are those of the database."""

from __future__ import annotations

import sqlalchemy as sa

from seqferry.db.database import clock
from seqferry.db.tables import gateway_question as question


def _now(connection: sa.Connection) -> sa.ColumnElement[float]:
    return clock(is_sqlite=connection.dialect.name == "sqlite")


def add(
    connection: sa.Connection, question_id: str, worker_id: str, path: str, *, counts: bool, seconds: float
) -> None:
    """Add a question whose client waits for so many seconds."""
    values = {"id": question_id, "worker_id": worker_id, "path": path, "counts": counts}
    connection.execute(question.insert().values(**values, ends_at=_now(connection) + seconds))


def count(connection: sa.Connection) -> int:
    """Number of questions whose client waits. Those whose time is over are removed."""
    connection.execute(question.delete().where(question.c.ends_at <= _now(connection)))
    return connection.execute(sa.select(sa.func.count()).select_from(question)).scalar_one()


def find_open(connection: sa.Connection, worker_id: str) -> tuple[str, str, bool] | None:
    """Id, path and ``counts`` of the question that this process is to answer next."""
    is_open = (question.c.worker_id == worker_id, question.c.answer.is_(None), question.c.ends_at > _now(connection))
    query = sa.select(question.c.id, question.c.path, question.c.counts).where(*is_open).order_by(question.c.ends_at)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else (row.id, row.path, bool(row.counts))


def answer(connection: sa.Connection, question_id: str, text: str) -> None:
    """Answer a question, if its client still waits."""
    connection.execute(question.update().where(question.c.id == question_id).values(answer=text))


def read_answer(connection: sa.Connection, question_id: str) -> str | None:
    return connection.execute(sa.select(question.c.answer).where(question.c.id == question_id)).scalar()


def remove(connection: sa.Connection, question_id: str) -> None:
    connection.execute(question.delete().where(question.c.id == question_id))
