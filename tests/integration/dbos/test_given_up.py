"""Transfers whose workflow DBOS has given up: they go on, or come to an end."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from control import spec_on, until_ended
from mirror import SMALL, digests, fill

from seqferry.db import batches
from seqferry.db.batches import BatchRun
from seqferry.dbos import ownership
from seqferry.model import names
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # the queue is one of each

WorkerStarter = Callable[[Service], Worker]
BucketFactory = Callable[..., str]


def _give_up(service: Service, workflow_id: str, state: str) -> bool:
    """Mark a workflow as given up, as DBOS does; False when there is none."""
    schema = "" if service.database.is_sqlite else "dbos."
    statement = sa.text(f"update {schema}workflow_status set status = :state where workflow_uuid = :id")
    with service.database.write() as connection:
        return connection.execute(statement, {"state": state, "id": workflow_id}).rowcount == 1


# SUCCESS: the worker has told of the end after the server lost the commit that ended the transfer's row.
@pytest.mark.parametrize("state", ["ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "SUCCESS"])
def test_a_transfer_whose_workflow_was_given_up_goes_on(
    service: Service,
    versitygw: S3Server,
    make_bucket: BucketFactory,
    start_worker: WorkerStarter,
    rng: random.Random,
    state: str,
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {f"run/{number}": SMALL for number in range(3)}, rng)
    transfer_id = service.submit(spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/"), actor="ada")
    assert _give_up(service, transfer_id, state)

    start_worker(service)

    assert until_ended(service, transfer_id, deadline=60).totals.done == 3
    assert len(digests(versitygw, target)) == 3


def test_a_batch_whose_end_the_database_has_lost_is_run_again(
    service: Service, versitygw: S3Server, make_bucket: BucketFactory, start_worker: WorkerStarter, rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {f"run/{number}": SMALL for number in range(3)}, rng)
    transfer_id = service.submit(spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/"), actor="ada")
    lost: list[int] = []
    close = batches.close

    def close_once_for_nothing(connection: sa.Connection, run: BatchRun, now: float, requests: int) -> bool:
        if lost:
            return close(connection, run, now, requests)
        lost.append(run.number)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "close", close_once_for_nothing)
        start_worker(service)

        assert until_ended(service, transfer_id, deadline=60).totals.done == 3
    assert len(digests(versitygw, target)) == 3
    assert lost == [0]


@pytest.mark.postgres
@pytest.mark.parametrize("settings", ["postgres"], indirect=True)  # several workers need it
def test_what_a_dead_worker_held_of_an_ended_transfer_leaves_the_queue(
    service: Service, versitygw: S3Server, make_bucket: BucketFactory, start_worker: WorkerStarter, rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/a": SMALL}, rng)
    spec = spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/")
    ended = service.submit(spec, actor="ada")
    worker = start_worker(service)
    assert until_ended(service, ended, deadline=60).totals.done == 1
    worker.stop()
    open_one = service.submit(spec, actor="ada")

    held = [ended, open_one]
    with service.database.write() as connection:
        # The worker was killed after it had recorded the end, and before the queue knew.
        hold = (
            "update dbos.workflow_status set status = 'PENDING', executor_id = 'dead' where workflow_uuid = any(:ids)"
        )
        assert connection.execute(sa.text(hold), {"ids": held}).rowcount == 2
        given = ownership.requeue(connection, ["dead"])
        query = sa.text("select workflow_uuid, status from dbos.workflow_status where workflow_uuid = any(:ids)")
        states = {row.workflow_uuid: row.status for row in connection.execute(query, {"ids": held})}

    assert given == {open_one: "dead"}
    assert states == {ended: "CANCELLED", open_one: "ENQUEUED"}
    start_worker(service)
    assert until_ended(service, open_one, deadline=60).totals.skipped == 1
    assert service.status(ended).state == "done"


def test_a_transfer_that_is_given_up_again_and_again_fails_and_says_so(
    service: Service, versitygw: S3Server, make_bucket: BucketFactory, start_worker: WorkerStarter, rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/a": SMALL}, rng)
    spec = spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/")
    transfer_id = service.submit(spec, actor="ada")
    for number, workflow_id in enumerate(names.transfer_workflow_ids(transfer_id)):
        if number:
            with service.database.write() as connection:
                service.queue.enqueue_transfer(connection, transfer_id, None, revival=number)
        assert _give_up(service, workflow_id, "ERROR")

    start_worker(service)
    eventually(lambda: service.status(transfer_id).ended, what="the end", deadline=60)

    status = service.status(transfer_id)
    assert (status.state, status.error_code) == ("failed", "internal")
    assert "log of the worker" in (status.error_message or "")
