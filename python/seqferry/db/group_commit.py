"""Group commit: what several threads write is written by one of them, in one transaction.

Each thread waits until its own part is committed. The first writes for all that wait: they share the cost of a
transaction, its sync, and the lock of the ledger, which is held for one commit instead of one for each.

Bounded by the threads: each waits with one part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

import sqlalchemy as sa

from seqferry.db.database import Database
from seqferry.model.errors import ConfigError

Part = TypeVar("Part")
Result = TypeVar("Result")

_PARTS: Final = 64
"""Most parts of a transaction: its locks are held until all are written."""


@dataclass(eq=False, slots=True)
class _Entry(Generic[Part, Result]):
    part: Part
    alone: bool = False
    """True after a failed transaction: each of its entries is then written by itself, which shows the faulty one."""
    results: Sequence[Result] = ()
    """One, once it was written."""
    failure: ConfigError | None = None
    tried: threading.Event = field(default_factory=threading.Event)
    """Set when its transaction has ended."""


class GroupCommit(Generic[Part, Result]):
    """Safe to use from many threads.

    Args:
        write: writes parts and returns the result of each, in their order. It is called again where it fails.
        durable: as for ``Database.write``.
        writers: transactions at a time, so that some wait for the database while others compute.
    """

    def __init__(
        self,
        database: Database,
        write: Callable[[sa.Connection, Sequence[Part]], Sequence[Result]],
        *,
        durable: bool = True,
        writers: int = 1,
    ) -> None:
        self._database: Final = database
        self._write: Final = write
        self._durable: Final = durable
        self._waiting: list[_Entry[Part, Result]] = []
        self._listed = threading.Lock()
        self._writing = threading.BoundedSemaphore(writers)

    def commit(self, part: Part) -> Result:
        """Write a part; when this returns, it is committed.

        Raises:
            ConfigError: the database cannot be reached; whether it was written is not known.
            Exception: what ``write`` raises for this part.
        """
        entry = _Entry[Part, Result](part)
        with self._listed:
            self._waiting.append(entry)
        while not entry.results and entry.failure is None:
            with self._writing:
                group = self._take_group(entry)
                if group:
                    self._write_group(group)
            entry.tried.wait()  # else another thread writes it
        if entry.failure is not None:
            raise entry.failure
        return entry.results[0]

    def _take_group(self, mine: _Entry[Part, Result]) -> list[_Entry[Part, Result]]:
        """Remove what is to be written with ``mine`` from what waits; nothing where another thread has taken that."""
        with self._listed:
            if mine.alone:
                return [mine]
            if mine not in self._waiting:
                return []
            group = [mine, *islice((one for one in self._waiting if one is not mine), _PARTS - 1)]
            self._waiting = [one for one in self._waiting if one not in group]
            return group

    def _write_group(self, group: list[_Entry[Part, Result]]) -> None:
        try:
            with self._database.write(durable=self._durable) as connection:
                results = self._write(connection, [one.part for one in group])
            for one, result in zip(group, results, strict=True):
                one.results = (result,)
        except ConfigError as why:  # another attempt would wait as long for the database
            for one in group:
                one.failure = why
        except BaseException:
            if len(group) == 1:
                raise
            for one in group:
                one.alone = True
        finally:
            for one in group:
                one.tried.set()
