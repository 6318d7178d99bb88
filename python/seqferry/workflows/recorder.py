"""Results of all batches of this process, written together.

Each batch has a thread that waits until its results are in the database. The first of these threads writes for all
that wait (a group commit): the cost of a transaction is shared, and grows neither with the batches that run side by
side nor with how long each takes.

Bounded by the running batches: each waits with at most the events of its job since the last poll.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from seqferry.db import batches
from seqferry.db.batches import BatchRun
from seqferry.db.bulk import Results
from seqferry.db.database import Database


@dataclass(eq=False, slots=True)
class _Entry:
    run: BatchRun
    results: Results
    alone: bool = False
    """True after a failed transaction: each of its entries is then written by itself, which shows the faulty one."""
    owned: bool | None = field(default=None)
    """Set when it was written, or is not to be."""


class Recorder:
    """One per worker. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        self._waiting: list[_Entry] = []
        self._listed = threading.Lock()
        self._writing = threading.Lock()

    def record(self, run: BatchRun, results: Results) -> bool:
        """Write the results of a run; when this returns, they are in the database.

        Returns:
            False when a later run of the batch has shut this one out: nothing was written.

        Raises:
            ConfigError: the database cannot be reached; whether they were written is not known.
        """
        entry = _Entry(run, results)
        with self._listed:
            self._waiting.append(entry)
        with self._writing:
            while entry.owned is None:  # else another worker has written it meanwhile
                self._write(entry)
        return entry.owned

    def _write(self, mine: _Entry) -> None:
        with self._listed:
            group = [mine] if mine.alone else [one for one in self._waiting if not one.alone]
            self._waiting = [one for one in self._waiting if one not in group]
        try:
            # Not synced: the next run finds at the target what is lost, and the transfer's end syncs all before it.
            with self._database.write(durable=False) as connection:
                owned = batches.record(connection, [(one.run, one.results) for one in group])
        except BaseException:
            if len(group) == 1:
                raise
            for one in group:
                one.alone = True
            with self._listed:
                self._waiting += group
            return
        for one in group:
            one.owned = one.run in owned
