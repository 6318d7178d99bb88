"""Values that were never written, in the record of a transfer: findings like others, and no end of the audit."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from control import command
from ended import ended

from seqferry.db.tables import event
from seqferry.proof import auditing, report
from seqferry.proof.auditing import AuditCounts, Finding
from seqferry.service.service import Service

COLUMNS = (
    *("transfer.created_at", "transfer.ended_at", "transfer.started_at", "event.at", "seal.objects", "batch.objects"),
    *("object.size", "object.ended_at", "object.batch_number", "ledger.at", "ledger.event_number", "tally.done"),
)


def _audit(service: Service) -> list[Finding]:
    return list(auditing.verify(service.database, AuditCounts()))


def _forge(service: Service, text: str) -> None:
    with service.database.write() as connection:
        connection.execute(sa.text(text))


@pytest.mark.parametrize("data", ["x", "", "[]", "null", "{", '{"spec": 1}x', '{"at": NaN}'])
def test_data_of_an_event_that_is_no_json_is_a_finding(service: Service, data: str) -> None:
    other, of = ended(service), ended(service)
    assert _audit(service) == []
    with service.database.write() as connection:
        connection.execute(event.update().where(event.c.transfer_id == of).values(data=data))

    found = _audit(service)

    assert ("event_changed", "event 1") in {(one.kind, one.row) for one in found}
    assert {one.transfer_id for one in found} == {of}
    assert {one.kind for one in service.record_findings(of)} == {one.kind for one in found}
    shown = "".join(report.stream(service.database, of, "json", service.record_findings(of)))
    assert json.loads(shown)["record"]["intact"] is False
    assert service.events(of)
    assert service.record_findings(other) == []


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # PostgreSQL keeps the kind of each column
@pytest.mark.parametrize("column", COLUMNS)
def test_text_in_place_of_a_number_is_a_finding(service: Service, column: str) -> None:
    of = ended(service)
    table, _, name = column.partition(".")
    _forge(service, f"UPDATE {table} SET {name} = 'x'")

    found = _audit(service)

    assert found
    assert {one.transfer_id for one in found} <= {of, None}


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # a command finds it by its folder
def test_the_commands_name_it_and_end_with_3(service: Service) -> None:
    of = ended(service)
    _forge(service, "UPDATE event SET data = data || 'x' WHERE number = 1")

    for words in (["audit", "verify"], ["report", of]):
        ended_with = command(service, *words)
        assert ended_with.returncode == 3, ended_with.stderr
        assert "event 1" in ended_with.stdout + ended_with.stderr
