"""Work that a worker has put on its queues itself waits for no poll."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from ferry import Ferry

from seqferry.db.tables import batch, transfer
from seqferry.dbos import runner
from seqferry.dbos.polling import ChangeCount
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.servers import S3Server

_POLL_SECONDS = 3.0


@pytest.mark.every_database
def test_batches_begin_once_they_are_planned(
    service: Service,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_POLL_SECONDS", _POLL_SECONDS)
    ferry = Ferry(service, versitygw, versitygw, make_bucket(versitygw), make_bucket(versitygw), rng, start_worker)
    ferry.fill({"run/a": 1})
    ferry.work()

    transfer_id, status = ferry.carry()

    assert status.state == "done"
    with service.database.read() as connection:
        planned = connection.scalar(sa.select(transfer.c.planned_at).where(transfer.c.id == transfer_id))
        begun = connection.scalar(sa.select(batch.c.started_at).where(batch.c.transfer_id == transfer_id))
    assert planned is not None
    assert begun is not None
    # Both queues are polled at about the same time: the next poll would be some three seconds later.
    assert begun - planned < _POLL_SECONDS / 2


@pytest.mark.parametrize("end", ["work", "stop"])
def test_a_wait_for_a_poll_ends_with_new_work_and_with_the_worker(end: str) -> None:
    polls, stop, ended = ChangeCount(), threading.Event(), list[bool]()
    seen = polls.count
    thread = threading.Thread(target=lambda: ended.append(polls.wait(seen, 600.0, stop)), daemon=True)
    thread.start()

    if end == "stop":
        stop.set()
    polls.notify()

    thread.join(60.0)
    assert ended == [end == "stop"]
