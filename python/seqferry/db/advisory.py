"""The advisory locks of PostgreSQL, each with its own number. On SQLite the lock of each writer does their work."""

from __future__ import annotations

from enum import IntEnum, unique

import sqlalchemy as sa


@unique
class AdvisoryLock(IntEnum):
    """Numbers that nothing else in the database uses. They are shared with workers of other versions: never changed."""

    MIGRATION = 7700
    REAPING = 7701
    SUBMISSION = 7702
    LEDGER = 7703
    SCHEDULES = 7704
    THINNING = 7705
    TICKETS = 7706
    TOKENS = 7707
    ENDPOINT_FACTS = 7708
    ALLOTMENTS = 7709
    FAIR_TURNS = 7710


def acquire(connection: sa.Connection, lock: AdvisoryLock) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    if connection.dialect.name != "sqlite":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(int(lock))))


def try_acquire(connection: sa.Connection, lock: AdvisoryLock) -> bool:
    """Hold a lock until the transaction ends. False: another transaction holds it."""
    if connection.dialect.name == "sqlite":
        return True
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(int(lock)))))
