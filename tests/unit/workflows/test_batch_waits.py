"""Waits for the ends of batches: who is woken, and how often the database is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import event

from seqferry.db.tables import batch, transfer
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec.build import build_spec
from seqferry.workflows.batch_waits import BatchWaits


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service.open(Settings.load({"HOME": str(tmp_path)}, state_dir=tmp_path / "state")) as service:
        yield service


def running(service: Service, name: str, *, batch_state: str = "active") -> str:
    """A transfer whose one batch is in this state."""
    spec = build_spec("s3://a/b/", f"s3://c/{name}/", endpoint_url="http://127.0.0.1:9")
    transfer_id = service.submit(spec, actor="ada", queued=False)
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(state="running"))
        row = {"transfer_id": transfer_id, "number": 1, "state": batch_state, "objects": 1, "bytes": 1}
        connection.execute(batch.insert().values(row))
    return transfer_id


def test_the_end_of_a_batch_wakes_its_transfer_alone() -> None:
    waits = BatchWaits()
    with waits.waiting("a") as first, waits.waiting("b") as second, waits.waiting("a") as third:
        waits.wake("a")

        assert [woken.is_set() for woken in (first, second, third)] == [True, False, True]
        waits.wake_all()
        assert second.is_set()
    waits.wake("a")


@pytest.mark.parametrize(
    "change",
    [
        {"state": "cancelling"},
        {"state": "paused"},
        {"state": "done", "ended_at": time.time()},
        {"error_code": "AccessDenied"},
    ],
    ids=lambda change: next(iter(change.values())),
)
def test_a_look_wakes_a_transfer_that_another_process_has_changed(service: Service, change: dict[str, object]) -> None:
    waits = BatchWaits()
    changed, same = running(service, "changed"), running(service, "same")
    with waits.waiting(changed) as woken, waits.waiting(same) as left:
        waits.wake_changed(service.database)
        assert not woken.is_set()

        with service.database.write() as connection:
            connection.execute(transfer.update().where(transfer.c.id == changed).values(change))
        waits.wake_changed(service.database)

        assert woken.is_set()
        assert not left.is_set()


def test_a_look_wakes_a_transfer_whose_batches_have_ended_elsewhere(service: Service) -> None:
    waits = BatchWaits()
    ended, queued = running(service, "ended", batch_state="ended"), running(service, "queued", batch_state="queued")
    with waits.waiting(ended) as woken, waits.waiting(queued) as left:
        waits.wake_changed(service.database)

        assert woken.is_set()
        assert not left.is_set()


def test_a_look_is_one_question_for_all_transfers_and_none_without_any(service: Service) -> None:
    waits = BatchWaits()
    asked: list[str] = []
    ids = [running(service, str(number)) for number in range(20)]

    @event.listens_for(service.database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.extend([statement] if "transfer" in statement else [])

    waits.wake_changed(service.database)
    assert asked == []
    with ExitStack() as held:
        for transfer_id in ids:
            held.enter_context(waits.waiting(transfer_id))
        waits.wake_changed(service.database)
    assert len(asked) == 1
