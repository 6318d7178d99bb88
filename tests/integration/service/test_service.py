"""The verbs of the service that need no storage."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, add_batch, planned, results, spec_number

from seqferry.db import batches, objects
from seqferry.db.batches import ObjectOutcome
from seqferry.db.tables import transfer
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.model.models import Totals
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.build import build_spec
from seqferry.workflows.worker import Worker

OTHER_SPEC = build_spec("s3://vendor/run/", "s3://ours/other/")


def _queued(service: Service) -> list[str]:
    schema = "" if service.database.is_sqlite else "dbos."
    with service.database.read() as connection:
        return list(connection.execute(sa.text(f"select workflow_uuid from {schema}workflow_status")).scalars())


def test_all_files_of_a_state_folder_are_private_while_they_are_in_use(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        settings = Settings.load({}, state_dir=tmp_path)
        with Service.open(settings) as service, Worker.start(settings, service):
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)

    assert {"seqferry.sqlite-wal", "seqferry.sqlite-shm", "worker.lock", "migrate.lock"} < modes.keys()
    assert modes == dict.fromkeys(modes, 0o600)


@pytest.mark.every_database
def test_a_submitted_transfer_is_on_record_and_on_the_queue(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")

    status = service.status(transfer_id)
    assert (status.state, status.spec, status.created_by, status.planned) == (
        "queued",
        identity.resolve(ANY_SPEC),
        "ada",
        False,
    )
    assert (status.totals, status.started_at, status.ended_at) == (Totals(), None, None)
    assert [one.kind for one in service.events(transfer_id)] == ["submitted"]
    assert _queued(service) == [transfer_id]


@pytest.mark.every_database
def test_a_submit_that_fails_half_way_leaves_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(service.queue, "enqueue_transfer", fail)
    with pytest.raises(RuntimeError):
        service.submit(ANY_SPEC, actor="ada")

    assert service.transfers() == []
    assert _queued(service) == []


def test_the_same_idempotency_key_gives_the_same_transfer(service: Service) -> None:
    first = service.submit(ANY_SPEC, actor="ada", idempotency_key="k")

    assert service.submit(ANY_SPEC, actor="bob", idempotency_key="k") == first
    assert service.find_submitted(ANY_SPEC, "k", actor="ada") == first
    assert service.find_submitted(ANY_SPEC, "other", actor="ada") is None
    another = service.submit_or_resume(ANY_SPEC, actor="ada", idempotency_key="other", new=True)
    assert (another.id == first, another.blocked) == (False, True)
    assert _queued(service) == [first]


def test_an_idempotency_key_is_not_for_another_transfer(service: Service) -> None:
    service.submit(ANY_SPEC, actor="ada", idempotency_key="k")

    with pytest.raises(ConflictError, match="used before"):
        service.submit(OTHER_SPEC, actor="ada", idempotency_key="k")
    with pytest.raises(UsageError, match="255 bytes"):
        service.submit(ANY_SPEC, actor="ada", idempotency_key="k" * 256)


@pytest.mark.every_database
def test_submissions_with_one_key_at_the_same_moment_are_one_transfer(service: Service) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: service.submit(ANY_SPEC, actor="ada", idempotency_key="k"), range(8)))

    assert len(ids) == 1
    assert _queued(service) == list(ids)


def test_a_start_of_an_id_is_enough_when_it_is_unique(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")

    assert service.status(transfer_id[:4]).id == transfer_id
    assert service.status(f" {transfer_id[:13].upper()} ").id == transfer_id


@pytest.mark.parametrize(
    "text", ["", "abc", "zzzz", "0000' or 1=1", "ffffffff-0000-4000-8000-000000000000", "%%%%", "____"]
)
def test_what_is_no_transfer_is_not_found(service: Service, text: str) -> None:
    service.submit(ANY_SPEC, actor="ada")

    with pytest.raises(NotFoundError):
        service.status(text)


def test_a_start_that_several_share_is_not_unique(service: Service) -> None:
    for last in "12":
        with service.database.write() as connection:
            connection.execute(
                transfer.insert().values(
                    id=f"abcd000{last}", state="queued", spec="{}", created_at=1.0, created_by="ada"
                )
            )

    with pytest.raises(NotFoundError, match="Several"):
        service.status("abcd")


def test_transfers_come_newest_first(service: Service) -> None:
    ids = [service.submit(spec_number(number), actor="ada") for number in range(5)]

    assert [status.id for status in service.transfers()] == ids[::-1]
    assert [status.id for status in service.transfers(limit=2)] == ids[:2:-1]


def test_a_transfer_that_has_not_begun_is_cancelled_at_once(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")

    status = service.cancel(transfer_id[:8], actor="bob")

    assert status.state == "cancelled"
    assert status.ended_at is not None
    assert [(one.kind, one.actor) for one in service.events(transfer_id)] == [
        ("submitted", "ada"),
        ("cancel_requested", "bob"),
        ("cancelled", "bob"),
    ]
    assert service.cancel(transfer_id, actor="bob") == status
    assert len(service.events(transfer_id)) == 3


@pytest.mark.parametrize("ended", ["done", "failed"])
def test_a_transfer_that_has_ended_otherwise_cannot_be_cancelled(service: Service, ended: str) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    with service.database.write() as connection:
        connection.execute(transfer.update().values(state=ended))

    with pytest.raises(ConflictError, match="already ended"):
        service.cancel(transfer_id, actor="bob")


def test_objects_come_page_by_page_and_by_state(service: Service) -> None:
    transfer_id, other = service.submit(ANY_SPEC, actor="ada"), service.submit(spec_number(1), actor="ada")
    with service.database.write() as connection:
        for number in range(3):
            add_batch(connection, other, [planned("x" * (number + 1))])
            add_batch(connection, transfer_id, [planned(f"{number}{letter}") for letter in "abc"])
        run = batches.begin_batch(connection, transfer_id, 1, 1.0)
        assert run is not None
        end = ObjectOutcome(state="failed", ended_at=1.0, error_class="person", error_code="AccessDenied")
        batches.end_open_objects(connection, run, end)

    pages = [service.objects(transfer_id, limit=4)]
    while pages[-1]:
        pages.append(service.objects(transfer_id, limit=4, after=pages[-1][-1].row))
    assert [len(page) for page in pages] == [4, 4, 1, 0]
    assert [one.source_key for page in pages for one in page] == [
        f"run/{n}{letter}" for n in range(3) for letter in "abc"
    ]
    assert [one.source_key for one in service.objects(transfer_id, state="failed")] == ["run/1a", "run/1b", "run/1c"]
    assert len(service.objects(transfer_id, state="pending")) == 6
    with pytest.raises(UsageError, match="not a state"):
        service.objects(transfer_id, state="broken")


@pytest.mark.every_database
def test_failures_are_grouped_by_cause_with_some_keys(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    with service.database.write() as connection:
        add_batch(connection, transfer_id, [planned(f"{number}") for number in range(8)])
        run = batches.begin_batch(connection, transfer_id, 0, 1.0)
        assert run is not None
        ids = [one.id for one in objects.open_objects(connection, run)]
        denied = {
            "state": "failed",
            "error_class": "person",
            "error_code": "AccessDenied",
            "error_operation": "CopyObject",
        }
        columns = results(
            *({"id": one, **denied, "error_message": f'no "{one}" \\ {{,'} for one in ids[:5]),
            {"id": ids[5], "state": "failed"},
            {"id": ids[6], "state": "done"},
        )
        assert batches.record(connection, [(run, columns)]) == {run}

    groups = service.failures(transfer_id, keys=2)

    assert [(one.error_code, one.operation, one.count, one.keys) for one in groups] == [
        ("AccessDenied", "CopyObject", 5, ("run/0", "run/1")),
        ("", "", 1, ("run/5",)),
    ]
    assert groups[0].message == f'no "{ids[0]}" \\ {{,'
