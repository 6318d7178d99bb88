"""Receipts: one digest of all that is on record, the same on each database."""

from __future__ import annotations

import hashlib
import json

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, add_batch, planned
from ended import add_ended_batch, begin, ended, finish

from seqferry.db import batches, transfers
from seqferry.db.record import ledger, receipts
from seqferry.db.tables import event, object_, seal, transfer
from seqferry.service.service import Service


def _again(service: Service, transfer_id: str) -> str:
    """The digest of what is on record now."""
    with service.database.read() as connection:
        row = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one()
        end = json.loads(
            connection.execute(
                sa.select(event.c.data).where(event.c.transfer_id == transfer_id).order_by(event.c.number.desc())
            ).scalar()
            or "{}"
        )
        totals = receipts.read_totals(connection, transfer_id)
        return receipts.digest(
            receipts.receipt_data(
                connection, row, state=row.state, totals=totals, ended_at=row.ended_at, software=end["software"]
            )
        )


def test_the_end_of_a_transfer_holds_the_digest_of_its_receipt(service: Service) -> None:
    transfer_id = ended(service)

    digest = service.receipt_digest(transfer_id)

    assert digest is not None
    assert len(digest) == 64
    assert digest == service.status(transfer_id).receipt_digest == _again(service, transfer_id)
    assert service.events(transfer_id)[-1].data["receipt_digest"] == digest
    assert service.events(transfer_id)[-1].data["done"] == 12


def test_an_unfinished_transfer_has_none(service: Service) -> None:
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ["a"])

    assert service.receipt_digest(transfer_id) is None


def test_a_transfer_that_has_not_begun_has_a_receipt_of_its_cancel(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    service.cancel(transfer_id, actor="ada")

    assert service.receipt_digest(transfer_id) == _again(service, transfer_id)


@pytest.mark.every_database
def test_batches_that_were_cancelled_before_they_began_are_sealed(service: Service) -> None:
    transfer_id = begin(service)
    with service.database.write() as connection:
        for number in range(30):
            add_batch(connection, transfer_id, [planned(f"{number}")])
        transfers.request_cancel(connection, transfer_id, 2.0, "ada")
        assert len(batches.cancel_queued(connection, transfer_id, 3.0, 100)) == 30
    receipts.seal_missing(service.database, transfer_id)
    finish(service, transfer_id)

    with service.database.read() as connection:
        assert len(list(receipts.read_seals(connection, transfer_id))) == 30
    assert service.receipt_digest(transfer_id) == _again(service, transfer_id)


def test_the_root_of_a_batch_follows_from_its_rows(service: Service) -> None:
    transfer_id = begin(service)
    number = add_ended_batch(service, transfer_id, ["run \u2028 ü", "b"], checksum=None, checksum_algorithm=None)

    with service.database.read() as connection:
        rows = list(receipts.read_rows(connection, transfer_id, number))
        [found] = receipts.read_seals(connection, transfer_id)
    leaves = [
        hashlib.sha256(b"\x00" + json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()).digest()
        for row in rows
    ]
    assert found.root == hashlib.sha256(b"\x01" + leaves[0] + leaves[1]).hexdigest()
    assert dict(zip(receipts.COLUMNS, rows[0], strict=True))["ended_at"] == 1_700_000_001_750_000


@pytest.mark.every_database
@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_packed_rows_come_back_as_they_were(service: Service, rows: int) -> None:
    transfer_id = begin(service)
    number = add_ended_batch(service, transfer_id, [f"{one} \n ü" for one in range(rows)]) if rows else 0

    with service.database.read() as connection:
        stored = list(receipts.read_stored_rows(connection, transfer_id, number))
        archive = receipts.pack(iter(stored))
    assert list(receipts.unpack(archive)) == stored
    assert len(stored) == rows
    assert rows < 5000 or len(archive) < 60 * rows


def test_submissions_and_ends_are_in_the_ledger(service: Service) -> None:
    first, second = ended(service), ended(service, number=2)

    with service.database.read() as connection:
        entries = [(row.transfer_id, row.kind) for row in ledger.entries(connection)]
        head = ledger.head(connection)
    assert entries == [(first, "submitted"), (first, "done"), (second, "submitted"), (second, "done")]
    assert head.count == 4
    assert ledger.Head.parse(str(head)) == head


@pytest.mark.parametrize("text", ["", "3", "3-", f"x-{'a' * 64}", f"3-{'g' * 64}", f"3-{'a' * 63}"])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no head of a ledger"):
        ledger.Head.parse(text)


def test_a_changed_row_gives_another_root(service: Service) -> None:
    transfer_id = begin(service)
    number = add_ended_batch(service, transfer_id, ["a", "b"])
    with service.database.write() as connection:
        [before] = receipts.read_seals(connection, transfer_id)
        connection.execute(object_.update().where(object_.c.source_key == "run/a").values(target_etag="other"))
        connection.execute(seal.delete())
        receipts.seal_batch(connection, transfer_id, number)
        [after] = receipts.read_seals(connection, transfer_id)

    assert before.root != after.root
