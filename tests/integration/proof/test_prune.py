"""Pruning frees the database and keeps receipts whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from control import command, spec_number
from ended import AT, begin, ended

from seqferry.db.tables import object_, seal, transfer
from seqferry.model.errors import ConflictError
from seqferry.proof import auditing, pruning, report
from seqferry.service.service import Service


def _prune(service: Service, *, before: float = AT + 100, dry_run: bool = False) -> list[str]:
    return [
        one.id
        for one in pruning.prune(
            service.database, service.queue, ended_before=before, now=AT + 200, actor="ada", dry_run=dry_run
        )
    ]


def _rows(service: Service, transfer_id: str) -> int:
    with service.database.read() as connection:
        return connection.execute(
            sa.select(sa.func.count()).select_from(object_).where(object_.c.transfer_id == transfer_id)
        ).scalar_one()


def _report(service: Service, transfer_id: str) -> dict[str, Any]:
    return json.loads("".join(report.stream(service.database, transfer_id, "json")))


def _findings(service: Service) -> list[str]:
    return [one.kind for one in auditing.verify(service.database, auditing.AuditCounts())]


def test_the_receipt_of_a_pruned_transfer_is_as_before(service: Service) -> None:
    old, running = ended(service), begin(service, number=2)
    before = _report(service, old)

    assert _prune(service) == [old]

    assert _rows(service, old) == 0
    after = _report(service, old)
    assert after["objects"] == before["objects"]
    assert (after["facts"], after["digest"]) == (before["facts"], before["digest"])
    assert _findings(service) == []
    assert service.status(old).pruned_at == AT + 200
    assert service.status(old).totals.done == 12
    assert service.events(old)[-1].kind == "pruned"
    assert service.status(running).pruned_at is None
    assert _prune(service) == []


@pytest.mark.every_database
def test_what_is_young_or_only_looked_at_stays(service: Service) -> None:
    old = ended(service)

    assert _prune(service, before=AT) == []
    assert _prune(service, dry_run=True) == [old]
    assert _rows(service, old) == 12


def test_a_parent_that_a_retry_goes_on_with_stays(service: Service) -> None:
    old = ended(service)
    child = service.submit(spec_number(2), actor="ada", queued=False)
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == child).values(retry_of=old))

    assert _prune(service) == []


def test_rows_that_were_changed_are_not_pruned(service: Service) -> None:
    old = ended(service)
    with service.database.write() as connection:
        connection.execute(object_.update().where(object_.c.source_key == "run/b2/größe 0.gz").values(size=9))

    with pytest.raises(ConflictError, match="batch 2 are not as they were recorded"):
        _prune(service)
    assert _rows(service, old) == 4
    assert "object_changed" in _findings(service)


@pytest.mark.every_database
def test_a_prune_that_was_cut_off_goes_on(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ended(service)
    usual, calls = pruning._archive, list[int]()

    def killed(connection: sa.Connection, transfer_id: str, number: int) -> None:
        calls.append(number)
        usual(connection, transfer_id, number)
        if number == 1:
            raise KeyboardInterrupt  # before the commit

    monkeypatch.setattr(pruning, "_archive", killed)
    with pytest.raises(KeyboardInterrupt):
        _prune(service)
    assert (_rows(service, old), calls) == (8, [0, 1])
    assert _findings(service) == []
    monkeypatch.setattr(pruning, "_archive", usual)

    assert _prune(service) == [old]
    assert _rows(service, old) == 0
    assert len(_report(service, old)["objects"]) == 12
    assert _findings(service) == []


def test_an_archive_that_was_changed_shows(service: Service) -> None:
    old = ended(service)
    _prune(service)
    with service.database.write() as connection:
        archive = connection.execute(sa.select(seal.c.archive).where(seal.c.number == 1)).scalar_one()
        connection.execute(seal.update().where(seal.c.number == 1).values(archive=bytes(archive)[:-9]))

    assert set(_findings(service)) == {"object_changed", "receipt_changed"}
    assert service.status(old).pruned_at is not None


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_the_command_prunes_and_says_so(service: Service) -> None:
    old = ended(service)

    assert (
        "Would prune 1 transfer with 12 objects" in command(service, "prune", "--older-than", "30m", "--dry-run").stderr
    )
    assert command(service, "prune", "--older-than", "soon").returncode == 2
    assert json.loads(command(service, "prune", "--older-than", "30m", "--json").stdout)["id"] == old
    assert "its objects are in its receipt: seqferry report" in command(service, "status", old).stdout
