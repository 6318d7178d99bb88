"""Records without signatures where there is a key: each is a finding, whatever time it states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from control import command
from ended import ended

from seqferry.db import schedule_rows, share_link_rows
from seqferry.db.database import Database
from seqferry.db.record import events, ledger, receipts, signing
from seqferry.db.tables import event, object_, seal, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.proof import auditing, report
from seqferry.proof.auditing import AuditCounts, Finding
from seqferry.service.service import Service
from seqferry.settings.audit_key import KeyRing
from seqferry.settings.config import Settings

LONG_AGO = 1_500_000_000.0


def _audit(service: Service, of: str | None = None) -> list[Finding]:
    return list(auditing.verify(service.database, AuditCounts(), transfer_id=of))


def _kinds(found: list[Finding], of: str) -> set[str]:
    return {one.kind for one in found if one.transfer_id == of}


@pytest.fixture
def forger(service: Service) -> Iterator[Database]:
    """The same database without the key; all code of ours is at hand."""
    settings = Settings.load({}, state_dir=service.settings.state_dir, database_url=service.settings.database_url)
    found = Database(settings)
    keys = KeyRing(None)
    keys.checked = True  # else it refuses to go on with a record of another key
    found.engine.update_execution_options(**{signing.OPTION: keys})
    yield found
    found.close()


def _unsign(connection: sa.Connection, of: str, *, back_to: float | None = None) -> None:
    """Make all hashes of a transfer anew without a key; with ``back_to`` as if it had been recorded then."""
    if back_to is not None:
        dated = {"created_at": back_to, "started_at": back_to, "planned_at": back_to, "ended_at": back_to}
        connection.execute(transfer.update().where(transfer.c.id == of).values(dated))
        dated = {"started_at": back_to, "ended_at": back_to}
        connection.execute(object_.update().where(object_.c.transfer_id == of).values(dated))
        connection.execute(event.update().where(event.c.transfer_id == of).values(at=back_to))
    connection.execute(seal.delete().where(seal.c.transfer_id == of))
    row = connection.execute(sa.select(transfer).where(transfer.c.id == of)).one()
    rows = connection.execute(sa.select(event).where(event.c.transfer_id == of).order_by(event.c.number)).all()
    totals = receipts.read_totals(connection, of)
    end = receipts.make_digest(connection, row, state=row.state, totals=totals, ended_at=row.ended_at)
    connection.execute(transfer.update().where(transfer.c.id == of).values(receipt_digest=end["receipt_digest"]))
    previous = events.FIRST
    for one in rows:
        data = json.loads(one.data)
        text = json.dumps(data | end if one.kind == "done" else data, ensure_ascii=False, sort_keys=True)
        own = events.event_hash(of, one.number, one.at, one.kind, one.actor, text, previous)
        values = {"data": text, "previous": previous, "hash": own, "key_id": None}
        connection.execute(event.update().where(event.c.transfer_id == of, event.c.number == one.number).values(values))
        previous = own


def _without_ledger(connection: sa.Connection, of: str) -> None:
    connection.execute(ledger_table.delete())


def _with_unsigned_ledger(connection: sa.Connection, of: str) -> None:
    """The ledger is made anew over what is there."""
    rows = list(ledger.entries(connection))
    connection.execute(ledger_table.delete())
    for row in rows:
        of_event = (event.c.transfer_id == row.transfer_id, event.c.number == row.event_number)
        one = connection.execute(sa.select(event).where(*of_event)).one()
        ledger.append(connection, None, row.transfer_id, row.event_number, row.kind, one.hash, one.at)


def _without_its_entries(connection: sa.Connection, of: str) -> None:
    connection.execute(ledger_table.delete().where(ledger_table.c.transfer_id == of))


def _nothing(service: Service, of: str) -> None:
    pass


def _another_transfer(service: Service, of: str) -> None:
    ended(service, number=7)


def _an_event_on_it(service: Service, of: str) -> None:
    with service.database.write() as connection:
        events.append(connection, of, 2_000_000_000.0, "verified", "ada", {"objects": 12})


@pytest.mark.parametrize("later", [_nothing, _another_transfer, _an_event_on_it])
@pytest.mark.parametrize("of_ledger", [_without_ledger, _with_unsigned_ledger, _without_its_entries])
@pytest.mark.parametrize("back_to", [None, LONG_AGO])
def test_a_record_that_was_forged_without_the_key_shows(
    service: Service,
    forger: Database,
    back_to: float | None,
    of_ledger: Callable[[sa.Connection, str], None],
    later: Callable[[Service, str], None],
) -> None:
    forged = ended(service)
    with forger.write() as connection:
        connection.execute(object_.update().where(object_.c.transfer_id == forged).values(etag="evil"))
        _unsign(connection, forged, back_to=back_to)
        of_ledger(connection, forged)
    later(service, forged)

    assert "not_keyed" in _kinds(_audit(service), forged)
    assert "not_keyed" in _kinds(_audit(service, forged), forged)
    assert "not_keyed" in {one.kind for one in service.record_findings(forged)}


def test_a_signed_record_without_its_ledger_shows(service: Service, forger: Database) -> None:
    before = ended(service)
    with forger.write() as connection:
        connection.execute(ledger_table.delete())

    assert "ledger_removed" in {one.kind for one in _audit(service) if one.transfer_id is None}
    ended(service, number=2)
    assert _kinds(_audit(service), before) == {"ledger_removed"}


@pytest.mark.parametrize("number", [1, 2])
def test_a_signed_ledger_that_was_cut_and_filled_without_the_key_shows(
    service: Service, forger: Database, number: int
) -> None:
    of = ended(service)
    with forger.write() as connection:
        rows = [one for one in ledger.entries(connection) if one.number >= number]
        connection.execute(ledger_table.delete().where(ledger_table.c.number >= number))
        for row in rows:
            ledger.append(connection, None, of, row.event_number, row.kind, row.event_hash, LONG_AGO)

    assert "not_keyed" in _kinds(_audit(service), of)


def test_seals_that_were_made_anew_without_the_key_show(service: Service, forger: Database) -> None:
    of = ended(service)
    with forger.write() as connection:
        connection.execute(object_.update().where(object_.c.transfer_id == of).values(etag="evil"))
        connection.execute(seal.delete().where(seal.c.transfer_id == of))
        for number in receipts.batch_numbers(connection, of):
            receipts.seal_batch(connection, of, number)

    assert _kinds(_audit(service), of) >= {"not_keyed", "receipt_changed"}


@pytest.mark.parametrize("at", [LONG_AGO, 2_000_000_000.0])
def test_the_records_of_schedules_and_share_links_are_held_to_the_same(
    service: Service, forger: Database, at: float
) -> None:
    ended(service)
    with forger.write() as connection:
        schedule_rows.record(connection, "s1", "nightly", at, "added", "eve", {"cron": "0 0 * * *"})
        schedule_rows.record(connection, "s1", "nightly", at, "removed", "eve", {})
        link = {"link_id": "0" * 12, "digest": "0", "transfer_id": None, "label": "run"}
        share_link_rows.insert(connection, **link, expires_at=at, at=at, actor="eve")

    assert [(found.kind, found.row) for found in _audit(service)] == [("not_keyed", "event 1")] * 2


def test_a_report_says_when_its_record_was_changed(service: Service, forger: Database) -> None:
    of = ended(service)
    whole = json.loads("".join(report.stream(service.database, of, "json", service.record_findings(of))))
    assert (whole["record"]["intact"], whole["record"]["findings"]) == (True, [])
    assert len(whole["record"]["key_id"]) == 16
    with forger.write() as connection:
        _unsign(connection, of)

    findings = service.record_findings(of)
    shown = json.loads("".join(report.stream(service.database, of, "json", findings)))
    page = "".join(report.stream(service.database, of, "html", findings))

    assert (shown["record"]["intact"], shown["record"]["key_id"]) == (False, None)
    assert "not_keyed" in {one["kind"] for one in shown["record"]["findings"]}
    assert "NOT as it was written" in page


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # a command finds it by its folder
def test_the_commands_name_what_is_not_signed_and_end_with_3(service: Service, forger: Database) -> None:
    young, old = ended(service), ended(service, number=2)
    with forger.write() as connection:
        _unsign(connection, young)
        _unsign(connection, old, back_to=LONG_AGO)
        connection.execute(ledger_table.delete())

    audited = command(service, "audit", "verify")
    assert audited.returncode == 3
    assert "nothing was changed" not in audited.stderr
    assert {line.partition("\t")[0] for line in audited.stdout.splitlines()} == {"not_keyed", "transfer_added"}
    shown = command(service, "report", young)
    assert shown.returncode == 3
    assert "The record was changed" in shown.stderr
