"""Recovery of unfinished transfers without a workflow: of dead processes, and those that DBOS has given up."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Final

from seqferry.db import batches, transfers
from seqferry.model import names
from seqferry.planning import batching
from seqferry.workflows import transfer_steps
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.worker")

_PAGE: Final = 500


def enqueue_missing(runtime: Runtime, ours: set[str]) -> None:
    """Enqueue unfinished transfers that are not on the queue: the process that ran them inline has ended or failed.

    A repetition adds nothing, since the ids of workflows follow from those of the rows.

    Args:
        ours: ids of transfers that this process runs inline.
    """
    left: dict[str, transfers.QueuePlacement] = {}
    for page in _find_unfinished(runtime):
        known = runtime.queue.find_known(list(page))
        left |= {transfer_id: page[transfer_id] for transfer_id in page if transfer_id not in known | ours}
    if not left:
        return
    with runtime.database.write() as connection:
        for transfer_id, place in left.items():
            sizes = batches.open_batch_sizes(connection, transfer_id)
            places = [(number, batching.priority_of(biggest)) for number, biggest in sizes]
            runtime.queue.enqueue_with_batches(connection, transfer_id, place.lane, place.priority, places)


def restart_dead(runtime: Runtime) -> None:
    """Restart the workflows of transfers that DBOS has given up, or whose end the database has lost.

    A transfer whose workflow fails after each restart ends as failed.
    """
    for page in _find_unfinished(runtime):
        for transfer_id, given_up in runtime.queue.dead_transfers(list(page)).items():
            if given_up <= names.REVIVALS:
                with runtime.database.write() as connection:
                    row = transfers.row_of(connection, transfer_id)
                    if row is None or row.ended_at is not None:
                        continue  # it ended since the page was read
                    log.warning(
                        "the workflow of transfer %s has ended before its transfer; it is restarted", transfer_id
                    )
                    place = page[transfer_id]
                    runtime.queue.enqueue_transfer(
                        connection, transfer_id, place.lane, priority=place.priority, revival=given_up
                    )
            else:
                transfer_steps.fail_dead_transfer(runtime, transfer_id)


def _find_unfinished(runtime: Runtime) -> Generator[dict[str, transfers.QueuePlacement]]:
    after = ""
    while True:
        with runtime.database.read() as connection:
            page = transfers.find_unfinished(connection, after=after, limit=_PAGE)
        if not page:
            return
        yield page
        after = max(page)
