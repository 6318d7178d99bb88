"""Recovery of unfinished transfers without a workflow: of dead processes, and those that DBOS has given up.

Would be replaced by a hook of DBOS that is called when it gives a workflow up; the first kind is of this product.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator
from typing import Final

from seqferry.db import transfers
from seqferry.db.database import Database
from seqferry.dbos.queue import Queue
from seqferry.model import names

log: Final = logging.getLogger("seqferry.worker")

_PAGE: Final = 500


def enqueue_missing(database: Database, queue: Queue, inline: Collection[str]) -> None:
    """Enqueue unfinished transfers that are not on the queue: the process that ran them inline has ended or failed.

    A repetition adds nothing, since the ids of workflows follow from those of the rows.

    Args:
        inline: ids of transfers that this process runs without the queue.
    """
    for page in _find_unfinished(database):
        known = queue.states(page)
        missing = [transfer_id for transfer_id in page if not (transfer_id in known or transfer_id in inline)]
        if not missing:
            continue
        with database.write() as connection:
            for transfer_id in missing:
                if (row := transfers.row_of(connection, transfer_id)) is not None:
                    queue.enqueue_with_batches(connection, transfer_id, row.lane, row.priority)


def restart_dead(database: Database, queue: Queue, fail: Callable[[str], None]) -> None:
    """Restart the workflows of transfers that DBOS has given up, or whose end the database has lost.

    Args:
        fail: ends a transfer as failed whose workflow has failed after each restart.
    """
    for page in _find_unfinished(database):
        for transfer_id, given_up in queue.dead_transfers(page).items():
            if given_up > names.REVIVALS:
                fail(transfer_id)
                continue
            with database.write() as connection:
                row = transfers.row_of(connection, transfer_id)
                if row is None or row.ended_at is not None:
                    continue  # it ended since the page was read
                log.warning("the workflow of transfer %s has ended before its transfer; it is restarted", transfer_id)
                queue.enqueue_transfer(connection, transfer_id, row.lane, priority=row.priority, revival=given_up)


def _find_unfinished(database: Database) -> Generator[list[str]]:
    after = ""
    while True:
        with database.read() as connection:
            page = transfers.find_unfinished(connection, after=after, limit=_PAGE)
        if not page:
            return
        yield page
        after = page[-1]
