"""The audit finds each kind of tampering by a person with write access to the database and without the key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from control import spec_number
from ended import AT, add_ended_batch, begin, ended, finish

from seqferry.db import transfers
from seqferry.db.database import Database
from seqferry.db.record import events, ledger, receipts, sealed_row, signing
from seqferry.db.tables import batch, event, object_, seal, tally, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.errors import ConfigError, UsageError
from seqferry.proof import auditing
from seqferry.proof.auditing import AuditCounts, Finding, KnownHead
from seqferry.service import control
from seqferry.service.service import Service
from seqferry.settings.audit_key import KeyRing
from seqferry.settings.config import Settings

OF_TRANSFER = (object_, seal, batch, tally, event)


def _audit(service: Service, *, known: list[KnownHead] | None = None, of: str | None = None) -> list[Finding]:
    return list(auditing.verify(service.database, AuditCounts(), transfer_id=of, known=known or []))


def _kept(service: Service) -> list[KnownHead]:
    return auditing.parse_heads([str(auditing.head(service.database))])


def _kinds(found: list[Finding]) -> set[str]:
    return {one.kind for one in found}


@pytest.fixture
def three(service: Service) -> list[str]:
    """Ids of three transfers that have ended."""
    return [ended(service, number=number) for number in (1, 2, 3)]


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


def _set_back(connection: sa.Connection, of: str) -> None:
    """Cut the end off, and let the transfer look as if it had not ended."""
    connection.execute(event.delete().where(event.c.transfer_id == of, event.c.kind == "done"))
    values = {"state": "running", "ended_at": None, "receipt_digest": None}
    connection.execute(transfer.update().where(transfer.c.id == of).values(values))


def _forget(connection: sa.Connection, of: str) -> None:
    for table in OF_TRANSFER:
        connection.execute(table.delete().where(table.c.transfer_id == of))
    connection.execute(transfer.delete().where(transfer.c.id == of))


def _forge_ledger(connection: sa.Connection) -> None:
    """Write the ledger anew over what is there, without the key."""
    rows = list(ledger.entries(connection))
    connection.execute(ledger_table.delete())
    for row in rows:
        found = connection.execute(
            sa.select(event.c.hash).where(event.c.transfer_id == row.transfer_id, event.c.number == row.event_number)
        ).scalar()
        if found is not None:
            ledger.append(connection, None, row.transfer_id, row.event_number, row.kind, found, row.at)


def _forge_transfer(connection: sa.Connection, of: str) -> None:
    """Make all hashes of a transfer anew, without the key."""
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


def test_an_untouched_record_has_no_findings(service: Service, three: list[str]) -> None:
    running = begin(service, number=4)
    add_ended_batch(service, running, ["a", "b"])
    checked = AuditCounts()

    assert list(auditing.verify(service.database, checked, known=_kept(service))) == []
    assert (checked.transfers, checked.objects, checked.entries, checked.keyed) == (4, 38, 7, True)
    assert len(three) == 3


def test_1_an_object_that_was_changed_is_named(service: Service, three: list[str]) -> None:
    with service.database.write() as connection:
        of = (object_.c.transfer_id == three[1], object_.c.source_key == "run/b1/größe 2.gz")
        assert connection.execute(object_.update().where(*of).values(checksum="BBBBBBBBBBB=")).rowcount == 1

    [found] = _audit(service)
    assert (found.kind, found.transfer_id, found.row) == ("object_changed", three[1], "batch 1")
    assert found.key == "run/b1/größe 2.gz"
    assert _audit(service, of=three[0]) == []


def test_2_an_object_that_was_removed_is_told_by_its_neighbour(service: Service, three: list[str]) -> None:
    with service.database.write() as connection:
        of = (object_.c.transfer_id == three[0], object_.c.source_key == "run/b2/größe 1.gz")
        assert connection.execute(object_.delete().where(*of)).rowcount == 1

    found = {one.kind: one for one in _audit(service)}
    assert found["object_removed"].row == "batch 2"
    assert "after 'run/b2/größe 0.gz'" in found["object_removed"].message


def test_3_an_object_that_was_added_is_named(service: Service, three: list[str]) -> None:
    with service.database.write() as connection:
        row = connection.execute(sa.select(object_).where(object_.c.transfer_id == three[2]).limit(1)).one()
        forged = {**row._mapping, "source_key": "run/evil.gz"}
        del forged["id"]
        connection.execute(object_.insert().values(forged))

    found = {one.kind: one for one in _audit(service)}
    assert (found["object_added"].key, found["object_added"].transfer_id) == ("run/evil.gz", three[2])


@pytest.mark.parametrize(
    "change", [{"actor": "eve"}, {"at": 9.0}, {"data": '{"a": 1}'}], ids=lambda one: next(iter(one))
)
def test_4_an_event_that_was_changed_is_named(service: Service, three: list[str], change: dict[str, Any]) -> None:
    with service.database.write() as connection:
        connection.execute(event.update().where(event.c.transfer_id == three[0], event.c.number == 2).values(change))

    assert ("event_changed", "event 2") in {(one.kind, one.row) for one in _audit(service)}


@pytest.mark.parametrize("removed", [1, 2])
def test_5_an_event_that_was_removed_is_named(service: Service, three: list[str], removed: int) -> None:
    with service.database.write() as connection:
        connection.execute(event.delete().where(event.c.transfer_id == three[0], event.c.number == removed))

    assert ("event_removed", f"event {removed}") in {(one.kind, one.row) for one in _audit(service)}


@pytest.mark.parametrize(
    "change",
    [
        {"created_by": "eve"},
        {"created_at": 1.0},
        {"state": "failed"},
        {"ended_at": 1.0},
        {"receipt_digest": "0" * 64},
        {"spec": "{}"},
        {"started_at": 1.0},
        {"error_message": "none"},
        {"source_uri": "s3://other/"},
        {"target_uri": None},
        {"retry_of": "another"},
        {"priority": 3},
        {"max_requests": 1},
        {"max_bandwidth": "1MB/s"},
        {"tpslimit": 1},
        {"name": "another"},
        {"labels": '{"project": "X"}'},
        {"planned_at": None},
        {"pruned_at": 1.0},
    ],
    ids=lambda one: next(iter(one)),
)
def test_6_a_transfer_that_was_changed_is_named(service: Service, three: list[str], change: dict[str, Any]) -> None:
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == three[1]).values(change))

    found = _audit(service)
    assert _kinds(found) <= {"transfer_changed", "receipt_changed"}
    assert {one.transfer_id for one in found} == {three[1]}


def test_settings_that_were_changed_on_the_way_pass_and_other_values_do_not(service: Service) -> None:
    transfer_id = service.submit(spec_number(1), actor="ada")
    control.adjust(service, transfer_id, actor="ada", priority=4, max_requests=8, max_bandwidth="50MB", tpslimit=9)
    control.adjust(service, transfer_id, actor="ada", max_requests=None)
    assert _audit(service) == []

    for before in ({"priority": 0}, {"max_requests": 8}, {"tpslimit": None}):
        with service.database.write() as connection:
            connection.execute(transfer.update().values(before))
        [found] = _audit(service)
        assert (found.kind, found.row) == ("transfer_changed", next(iter(before)))
        with service.database.write() as connection:
            connection.execute(transfer.update().values(priority=4, max_requests=None, tpslimit=9))


def test_a_transfer_of_an_earlier_version_is_checked_as_it_was_recorded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_row, "SEALED", "unknown")  # the first event does not hold the columns then
    ended(service)
    monkeypatch.undo()
    assert _audit(service) == []

    with service.database.write() as connection:
        connection.execute(transfer.update().values(source_uri=None, priority=1))
    assert _audit(service) == []


def test_7_an_end_that_was_cut_off_shows_though_the_state_was_set_back(service: Service, three: list[str]) -> None:
    with service.database.write() as connection:
        _set_back(connection, three[2])

    [found] = [one for one in _audit(service) if one.kind == "end_cut_off"]
    assert (found.transfer_id, found.row) == (three[2], "event 4")
    assert "(done)" in found.message


def test_7_an_end_that_was_cut_off_in_the_ledger_too_shows_by_a_head(service: Service, three: list[str]) -> None:
    kept = _kept(service)
    with service.database.write() as connection:
        _set_back(connection, three[2])
        connection.execute(ledger_table.delete().where(ledger_table.c.number == 6))

    assert _audit(service) == []  # by itself it cannot be seen: hence heads are kept elsewhere
    [found] = _audit(service, known=kept)
    assert (found.kind, found.row) == ("ledger_behind", "entry 6")


def test_8_a_record_that_was_made_anew_shows(service: Service, three: list[str], forger: Database) -> None:
    with forger.write() as connection:
        connection.execute(object_.update().where(object_.c.transfer_id == three[0]).values(verified="content"))
        _forge_transfer(connection, three[0])
        _forge_ledger(connection)

    found = _audit(service)
    assert "not_keyed" in _kinds(found)
    assert {one.transfer_id for one in found if one.kind == "not_keyed"} >= {three[0]}


def test_8_a_transfer_that_was_made_anew_shows_while_the_ledger_stands(
    service: Service, three: list[str], forger: Database
) -> None:
    with forger.write() as connection:
        connection.execute(object_.update().where(object_.c.transfer_id == three[0]).values(verified="content"))
        _forge_transfer(connection, three[0])

    found = _audit(service)
    assert _kinds(found) == {"event_changed", "not_keyed"}
    assert {one.transfer_id for one in found} == {three[0]}


@pytest.mark.parametrize("ledger_too", [False, True])
def test_9_a_transfer_that_was_removed_whole_shows(service: Service, three: list[str], ledger_too: bool) -> None:
    with service.database.write() as connection:
        _forget(connection, three[1])
        if ledger_too:
            connection.execute(ledger_table.delete().where(ledger_table.c.transfer_id == three[1]))

    [found] = _audit(service)
    wanted = ("ledger_removed", None) if ledger_too else ("transfer_removed", three[1])
    assert (found.kind, found.transfer_id) == wanted
    if ledger_too:
        assert found.row == "entry 3"


def test_9_the_last_transfer_removed_whole_shows_by_a_head(service: Service, three: list[str]) -> None:
    kept = _kept(service)
    with service.database.write() as connection:
        _forget(connection, three[2])
        connection.execute(ledger_table.delete().where(ledger_table.c.transfer_id == three[2]))

    [found] = _audit(service, known=kept)
    assert (found.kind, found.row) == ("ledger_behind", "entry 5")


def test_10_an_older_backup_shows_by_a_head(service: Service, three: list[str]) -> None:
    backup = _copy(service)
    ended(service, number=4)
    kept = _kept(service)
    _restore(service, backup)

    assert _audit(service) == []
    [found] = _audit(service, known=kept)
    assert (found.kind, found.row) == ("ledger_behind", "entry 7")
    assert "older backup" in found.message
    assert len(three) == 3


def test_10_an_older_backup_that_went_on_shows_by_a_head(service: Service, three: list[str]) -> None:
    backup = _copy(service)
    ended(service, number=4)
    kept = _kept(service)
    _restore(service, backup)
    ended(service, number=5)

    [found] = _audit(service, known=kept)
    assert (found.kind, found.row) == ("ledger_rewritten", "entry 8")
    assert len(three) == 3


def _copy(service: Service) -> dict[sa.Table, list[dict[str, Any]]]:
    with service.database.read() as connection:
        tables = (transfer, tally, batch, object_, event, seal, ledger_table)
        return {table: [dict(row._mapping) for row in connection.execute(sa.select(table))] for table in tables}


def _restore(service: Service, backup: dict[sa.Table, list[dict[str, Any]]]) -> None:
    with service.database.write() as connection:
        for table in reversed(list(backup)):
            connection.execute(table.delete())
        for table, rows in backup.items():
            connection.execute(table.insert(), rows)


def _batch_of(table: sa.Table, of: str) -> tuple[Any, ...]:
    number = table.c.batch_number if table is object_ else table.c.number
    return table.c.transfer_id == of, number == 2


@pytest.mark.parametrize(
    ("tamper", "kind"),
    [
        (lambda of: [seal.update().where(*_batch_of(seal, of)).values(root="0" * 64)], "seal_changed"),
        (lambda of: [seal.delete().where(*_batch_of(seal, of))], "seal_changed"),
        (lambda of: [one.delete().where(*_batch_of(one, of)) for one in (object_, seal, batch)], "receipt_changed"),
        (lambda of: [tally.update().where(tally.c.transfer_id == of).values(failed=1)], "transfer_changed"),
        (lambda of: [object_.update().where(*_batch_of(object_, of)).values(batch_number=9)], "object_added"),
        (lambda of: [seal.update().where(*_batch_of(seal, of)).values(archive=b"zz")], "object_changed"),
    ],
    ids=["root", "seal", "batch", "tally", "stray", "archive"],
)
def test_what_holds_the_objects_is_covered(
    service: Service, three: list[str], tamper: Callable[[str], list[sa.Executable]], kind: str
) -> None:
    with service.database.write() as connection:
        for statement in tamper(three[0]):
            connection.execute(statement)

    found = _audit(service)
    assert kind in _kinds(found)
    assert {one.transfer_id for one in found} == {three[0]}


def test_a_transfer_that_was_added_shows(service: Service, three: list[str], forger: Database) -> None:
    with forger.write() as connection:
        row = dict(connection.execute(sa.select(transfer).where(transfer.c.id == three[0])).one()._mapping)
        row |= {"id": "0" * 8, "created_at": AT + 10**9}
        connection.execute(transfer.insert().values(row))

    assert {one.kind for one in _audit(service) if one.transfer_id == "0" * 8} >= {"transfer_added", "event_removed"}


def test_a_batch_of_a_running_transfer_is_covered(service: Service) -> None:
    running = begin(service)
    add_ended_batch(service, running, ["a", "b"])
    with service.database.write() as connection:
        connection.execute(object_.update().where(object_.c.source_key == "run/b").values(target_etag="other"))

    [found] = _audit(service)
    assert (found.kind, found.key) == ("object_changed", "run/b")


def test_a_process_with_another_key_does_not_go_on_with_the_record(
    service: Service, three: list[str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    settings = Settings.load(
        {"XDG_CONFIG_HOME": str(other)},
        state_dir=service.settings.state_dir,
        database_url=service.settings.database_url,
    )
    with Service.open(settings) as opened:
        with pytest.raises(ConfigError, match="kept with the key"):
            opened.check_audit_key()
        assert "key_unknown" in _kinds(_audit(opened))
    assert not other.exists()
    assert len(three) == 3


def test_a_head_is_kept_only_where_a_key_signs_it(service: Service, forger: Database, three: list[str]) -> None:
    kept = service.signed_head()

    assert kept == auditing.head(service.database)
    assert kept is not None
    assert kept.count == 2 * len(three)
    with forger.write() as connection:
        connection.execute(ledger_table.update().where(ledger_table.c.number == kept.count).values(key_id=None))
    assert service.signed_head() is None


def test_keys_are_changed_and_both_verify(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    settings = Settings.load({"SEQFERRY_AUDIT_KEY": str(path)}, state_dir=tmp_path / "state")
    with Service.open(settings) as opened:
        ended(opened)
    path.write_text(f"{'cd' * 32}\n{path.read_text()}")
    with Service.open(settings) as opened:
        ended(opened, number=2)

        assert _audit(opened) == []
    with Service.open(settings) as opened, opened.database.read() as connection:
        assert len({row.key_id for row in ledger.entries(connection)}) == 2


def test_what_is_no_head_is_refused() -> None:
    with pytest.raises(UsageError, match="no head of a ledger"):
        auditing.parse_heads(["12"])


def test_a_cancelled_transfer_passes(service: Service) -> None:
    running = begin(service)
    add_ended_batch(service, running, ["a"])
    with service.database.write() as connection:
        transfers.request_cancel(connection, running, AT, "ada")
    finish(service, running)

    assert _audit(service) == []
