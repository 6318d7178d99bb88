"""Drain of a worker (``seqferry workers drain``): its batches end, and it begins no others.

Invariant: a running batch is not interrupted. The rest of a transfer, also its listing, continues elsewhere.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterable
from typing import Final

from seqferry.db import worker_rows
from seqferry.db.database import Database

log: Final = logging.getLogger("seqferry.worker")

_BATCH: Final = r":b\d{6,}$"
"""End of the id of the workflow of a batch (``names.batch_workflow_id``)."""


class DrainMonitor:
    """Monitor of a drain request. One per worker; one thread calls ``check``.

    Args:
        stop_taking: stops taking workflows from the queues.
        active: ids of the workflows that run here, and of the transfers that run inline or have a running batch here.
    """

    def __init__(
        self, database: Database, process_id: str, stop_taking: Callable[[], None], active: Callable[[], Iterable[str]]
    ) -> None:
        self._database = database
        self._process_id = process_id
        self._stop_taking = stop_taking
        self._active = active
        self._begun = self._ended = False

    def check(self) -> bool:
        """True while the worker is draining; sends SIGTERM to this process once nothing is left."""
        if not self._begun:
            with self._database.read() as connection:
                self._begun = worker_rows.is_draining(connection, self._process_id)
            if not self._begun:
                return False
            log.info("draining: running batches end, and no others begin")
            self._stop_taking()
        if not self._ended and not any(map(_is_awaited, self._active())):
            self._ended = True
            os.kill(os.getpid(), signal.SIGTERM)
        return True


def _is_awaited(active: str) -> bool:
    """True for a batch and for an inline transfer; other workflows plan, or wait for batches themselves."""
    return re.search(_BATCH, active) is not None or active.startswith(INLINE_PREFIX)


INLINE_PREFIX: Final = "inline "
"""Prefix of the id of an inline transfer."""
