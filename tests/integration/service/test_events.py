"""The record of acts shows when it was changed after the fact."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from control import ANY_SPEC

from seqferry.db.record import events
from seqferry.db.tables import event
from seqferry.service.service import Service


@pytest.fixture
def transfer_id(service: Service) -> str:
    made = service.submit(ANY_SPEC, actor="ada")
    with service.database.write() as connection:
        for number in range(4):
            events.append(
                connection, made, 1.5 + number, "note", "ada", {"n": number, "name": "größe \u2028", "x": 0.1}
            )
    return made


def _first_broken(service: Service, transfer_id: str) -> int | None:
    found = (one.row.partition("event ")[2] for one in service.record_findings(transfer_id))
    return next((int(number) for number in found if number), None)


def test_an_untouched_record_is_whole(service: Service, transfer_id: str) -> None:
    assert _first_broken(service, transfer_id) is None
    assert [one.number for one in service.events(transfer_id)] == [1, 2, 3, 4, 5]
    assert [one.number for one in service.events(transfer_id, after=3)] == [4, 5]
    assert service.events(transfer_id)[2].data == {"n": 1, "name": "größe \u2028", "x": 0.1}


@pytest.mark.parametrize(
    "change",
    [
        {"at": 9.0},
        {"kind": "other"},
        {"actor": "eve"},
        {"data": "{}"},
        {"previous": "0" * 64},
        {"hash": "0" * 64},
        {"number": 9},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_event_shows(service: Service, transfer_id: str, change: dict[str, object]) -> None:
    with service.database.write() as connection:
        where = (event.c.transfer_id == transfer_id, event.c.number == 3)
        assert connection.execute(event.update().where(*where).values(change)).rowcount == 1

    assert _first_broken(service, transfer_id) == 3


@pytest.mark.parametrize("removed", [1, 2, 4])
def test_a_removed_event_shows(service: Service, transfer_id: str, removed: int) -> None:
    with service.database.write() as connection:
        connection.execute(event.delete().where(event.c.transfer_id == transfer_id, event.c.number == removed))

    assert _first_broken(service, transfer_id) == removed


def test_an_event_with_its_hash_made_anew_shows_without_the_key(service: Service, transfer_id: str) -> None:
    with service.database.write() as connection:
        row = connection.execute(sa.select(event).where(event.c.transfer_id == transfer_id, event.c.number == 2)).one()
        forged = events.event_hash(transfer_id, 2, row.at, row.kind, "eve", row.data, row.previous)
        connection.execute(
            event.update()
            .where(event.c.transfer_id == transfer_id, event.c.number == 2)
            .values(actor="eve", hash=forged, key_id=None)
        )

    assert _first_broken(service, transfer_id) == 2
