"""Records of earlier transfers that a transfer rests on: those of the same request that have ended, newest first."""

from __future__ import annotations

import pytest
from ended import AT, add_ended_batch, begin, finish

from seqferry.db import earlier_objects
from seqferry.db.earlier_objects import EarlierObject
from seqferry.proof import pruning
from seqferry.service.service import Service

pytestmark = pytest.mark.every_database

KEYS = ["a", "größe 1.gz", "q'u\"o\\te", "tab\there"]
FOUND = [f"run/{key}" for key in KEYS]


def _ended(service: Service, *, number: int = 1, **facts: str) -> str:
    transfer_id = begin(service, number=number)
    add_ended_batch(service, transfer_id, KEYS, **facts)
    finish(service, transfer_id)
    return transfer_id


def _found(service: Service, transfer_id: str, keys: list[str]) -> list[dict[str, EarlierObject]]:
    with service.database.read() as connection:
        earlier = earlier_objects.find_transfers(connection, transfer_id)
        return [earlier_objects.read_objects(connection, one, keys) for one in earlier]


def test_the_latest_transfers_of_the_same_request_are_found_with_their_objects(service: Service) -> None:
    first = _ended(service, target_etag="first")
    _ended(service, number=2)
    second = _ended(service, target_etag="second")
    own = begin(service)

    latest, before = _found(service, own, [*FOUND, "run/new", "run/nul\0"])

    assert latest.keys() == before.keys() == set(FOUND)
    assert {one.target_etag for one in latest.values()} == {"second"}
    assert {one.target_etag for one in before.values()} == {"first"}
    record = latest["run/a"]
    assert (record.size, record.etag, record.state, record.verified) == (10, "etag", "done", "checksum")
    assert (record.started_at, record.ended_at, record.file_changed) == (AT, AT + 1.5, None)
    assert record.since == service.status(second).created_at > service.status(first).created_at


def test_what_failed_or_is_unfinished_is_no_record(service: Service) -> None:
    _ended(service, state="failed", verified="none")
    assert _found(service, begin(service), FOUND) == [{}]
    # That one has not ended: a further submission goes on with it.
    assert len(_found(service, begin(service), FOUND)) == 1


def test_a_pruned_transfer_is_no_record(service: Service) -> None:
    old = _ended(service)
    assert [
        one.id
        for one in pruning.prune(service.database, service.queue, ended_before=AT + 100, now=AT + 200, actor="ada")
    ] == [old]

    assert _found(service, begin(service), FOUND) == []
