"""The advisory locks of PostgreSQL, each with its own number. On SQLite the lock of each writer does their work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import IntEnum, unique

import sqlalchemy as sa


@unique
class AdvisoryLock(IntEnum):
    """Numbers that nothing else in the database uses. They are shared with workers of other versions: never changed."""

    MIGRATION = 7700
    REAPING = 7701
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


def acquire_named(connection: sa.Connection, exclusive: Iterable[str], shared: Iterable[str] = ()) -> None:
    """Wait for the locks of these names, in an order that all keep, and hold them until the transaction ends."""
    if connection.dialect.name != "sqlite":
        kinds = dict.fromkeys(map(_number, shared), "_shared") | dict.fromkeys(map(_number, exclusive), "")
        calls = ", ".join(f"pg_advisory_xact_lock{kinds[number]}({number})" for number in sorted(kinds))
        connection.exec_driver_sql(f"select {calls}")


def _number(name: str) -> int:
    """The number of a name among 2^64: locks that share one would only wait for each other."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], signed=True)


def try_acquire(connection: sa.Connection, lock: AdvisoryLock) -> bool:
    """Hold a lock until the transaction ends. False: another transaction holds it."""
    if connection.dialect.name == "sqlite":
        return True
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(int(lock)))))
