"""A record without signatures: forged after the key was made, or truly older, and then adopted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from control import command
from ended import add_ended_batch, begin, ended, finish

from seqferry.db import schedule_rows, share_link_rows
from seqferry.db.database import Database
from seqferry.db.record import events, ledger, receipts, signing
from seqferry.db.tables import event, object_, seal, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.errors import ConflictError
from seqferry.proof import auditing, report
from seqferry.proof.auditing import AuditCounts, Finding
from seqferry.service.service import Service
from seqferry.settings.audit_key import AuditKey, KeyRing
from seqferry.settings.config import Settings
from support.waiting import eventually

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
    end = receipts.record_digest(connection, of, state=row.state, totals=totals, ended_at=row.ended_at)
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

    wanted = "not_keyed" if back_to is None else "not_adopted"
    assert wanted in _kinds(_audit(service), forged)
    assert wanted in _kinds(_audit(service, forged), forged)
    assert wanted in {one.kind for one in service.record_findings(forged)}


def test_the_first_record_is_not_older_than_the_key_that_was_made_for_it(
    service: Service, forger: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = KeyRing.make

    def make_late(ring: KeyRing, *at: float) -> AuditKey | None:
        # Another second begins between the time of the submission and the key.
        told = time.time()
        eventually(lambda: int(time.time()) > told, what="the next second")
        return make(ring, *at)

    monkeypatch.setattr(KeyRing, "make", make_late)
    of = ended(service)
    with forger.write() as connection:
        _unsign(connection, of)
        connection.execute(ledger_table.delete())

    assert "not_keyed" in _kinds(_audit(service), of)


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


# --- truly older ------------------------------------------------------------------------------------------------------


@pytest.fixture
def older(service: Service, forger: Database) -> str:
    """A transfer from before the key, as an earlier version has left it: there is no ledger either."""
    of = ended(service)
    with forger.write() as connection:
        _unsign(connection, of, back_to=LONG_AGO)
        connection.execute(ledger_table.delete())
    return of


def _adopt(service: Service, of: str | None = None) -> dict[str, str | None]:
    return {one.number: one.refusal for one in auditing.adopt(service.database, actor="ada", transfer_id=of)}


@pytest.mark.every_database
def test_older_records_are_named_and_adopted_once(service: Service, older: str) -> None:
    [found] = _audit(service)
    assert (found.kind, found.transfer_id) == ("not_adopted", older)
    assert f"seqferry audit adopt {older}" in found.message

    named = list(auditing.adopt(service.database, actor="ada", dry_run=True))
    assert [(one.number, one.at, one.refusal) for one in named] == [(older, LONG_AGO, None)]
    assert _adopt(service) == {older: None}
    assert _adopt(service) == {}

    ended(service, number=2)
    checked = AuditCounts()
    assert list(auditing.verify(service.database, checked)) == []
    assert (checked.adopted, checked.before_ledger, checked.keyed) == (1, 1, True)


@pytest.mark.parametrize("expected", [0, 2])
def test_another_number_than_was_seen_adopts_nothing(service: Service, older: str, expected: int) -> None:
    with pytest.raises(ConflictError, match=f"1 records are selected now, and {expected} were expected"):
        service.adopt(actor="ada", expected=expected)

    assert _kinds(_audit(service), older) == {"not_adopted"}
    assert [one.number for one in service.adopt(actor="ada", expected=1)] == [older]


@pytest.mark.parametrize(
    "tamper",
    [
        object_.update().values(etag="evil"),
        transfer.update().values(created_by="eve"),
        transfer.update().values(source_uri="s3://other/"),
        transfer.update().values(priority=1),
        event.update().where(event.c.number == 1).values(actor="eve"),
        event.delete().where(event.c.kind == "adopted"),
        ledger_table.delete(),
    ],
)
def test_an_adopted_record_that_was_changed_shows(service: Service, older: str, tamper: sa.Update | sa.Delete) -> None:
    _adopt(service)
    with service.database.write() as connection:
        connection.execute(tamper)

    assert _kinds(_audit(service), older)


def test_an_adopted_record_that_was_forged_shows(service: Service, forger: Database, older: str) -> None:
    _adopt(service)
    with forger.write() as connection:
        connection.execute(object_.update().values(etag="evil"))
        connection.execute(seal.delete())
        for number in receipts.batch_numbers(connection, older):
            receipts.seal_batch(connection, older, number)

    assert "receipt_changed" in _kinds(_audit(service), older)


def test_what_is_younger_than_the_key_or_was_changed_is_not_adopted(service: Service, forger: Database) -> None:
    young, changed = ended(service), ended(service, number=2)
    with forger.write() as connection:
        _unsign(connection, young)
        _unsign(connection, changed, back_to=LONG_AGO)
        connection.execute(ledger_table.delete())
        connection.execute(object_.update().where(object_.c.transfer_id == changed).values(etag="evil"))

    found = _adopt(service)

    assert list(found) == [changed]
    assert "was changed" in (found[changed] or "")
    assert "not_keyed" in _kinds(_audit(service), young)
    assert "not_adopted" in _kinds(_audit(service), changed)


@pytest.mark.every_database
def test_an_older_transfer_is_adopted_when_it_has_ended(service: Service, forger: Database) -> None:
    of = begin(service)
    with forger.write() as connection:
        _unsign_events(connection, of)
        connection.execute(ledger_table.delete())
        connection.execute(transfer.update().where(transfer.c.id == of).values(created_at=LONG_AGO))
    assert _adopt(service) == {of: "It has not ended."}
    add_ended_batch(service, of, ["a"])
    finish(service, of)

    assert _kinds(_audit(service), of) == {"not_adopted"}
    assert _adopt(service) == {of: None}
    assert _audit(service) == []


def _unsign_events(connection: sa.Connection, of: str) -> None:
    previous = events.FIRST
    for one in connection.execute(sa.select(event).where(event.c.transfer_id == of).order_by(event.c.number)).all():
        own = events.event_hash(of, one.number, LONG_AGO, one.kind, one.actor, one.data, previous)
        values = {"at": LONG_AGO, "previous": previous, "hash": own, "key_id": None}
        connection.execute(event.update().where(event.c.transfer_id == of, event.c.number == one.number).values(values))
        previous = own


@pytest.mark.parametrize(("at", "kind"), [(LONG_AGO, "not_adopted"), (2_000_000_000.0, "not_keyed")])
def test_the_record_of_a_schedule_is_held_to_the_same(service: Service, forger: Database, at: float, kind: str) -> None:
    ended(service)
    with forger.write() as connection:
        schedule_rows.record(connection, "s1", "nightly", at, "added", "eve", {"cron": "0 0 * * *"})
        schedule_rows.record(connection, "s1", "nightly", at, "removed", "eve", {})

    [found] = _audit(service)
    assert (found.kind, found.row) == (kind, "event 1")
    assert _adopt(service) == ({"nightly": None} if kind == "not_adopted" else {})
    assert {one.kind for one in _audit(service)} == (set() if kind == "not_adopted" else {kind})


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
    assert {line.partition("\t")[0] for line in audited.stdout.splitlines()} == {"not_keyed", "not_adopted"}
    shown = command(service, "report", young)
    assert shown.returncode == 3
    assert "The record was changed" in shown.stderr
    adopted = command(service, "audit", "adopt")
    assert (adopted.returncode, adopted.stdout.split()[:2]) == (0, ["adopted", old])
    again = command(service, "audit", "verify")
    assert {line.partition("\t")[0] for line in again.stdout.splitlines()} == {"not_keyed"}
    assert "1 transfer from before the key" in again.stderr


@pytest.mark.every_database
@pytest.mark.parametrize("what", ["schedules", "share links"])
def test_each_older_record_is_checked_twice_however_many_there_are(
    service: Service, forger: Database, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forger.write() as connection:
        for number in range(40):
            if what == "schedules":
                schedule_rows.record(connection, f"s{number}", f"n{number}", LONG_AGO, "added", "eve", {})
                schedule_rows.record(connection, f"s{number}", f"n{number}", LONG_AGO, "removed", "eve", {})
            else:
                told = {"digest": "0", "transfer_id": None, "label": "run", "expires_at": LONG_AGO, "at": LONG_AGO}
                share_link_rows.insert(connection, link_id=f"{number:012x}", actor="eve", **told)
    hashes: list[None] = []
    own = events.event_hash

    def counted(*values: object) -> str:
        hashes.append(None)
        return own(*values)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(events, "event_hash", counted)

    adopted = _adopt(service)

    assert len(adopted) == 40
    assert len(hashes) <= 40 * 6
    monkeypatch.undo()
    assert _audit(service) == []
