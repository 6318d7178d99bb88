"""The list of files of ``/transfer_status``: written once for what has ended, and sent only when it has changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from control import add_batch, planned
from ended import AT, add_ended_batch, begin, finish
from http_client import http_of

from seqferry.db import batches, transfers
from seqferry.service.service import Service


@pytest.fixture
def read(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of batches whose objects were read."""
    numbers: list[int] = []
    files = service.batch_files

    def counted(transfer_id: str, number: int) -> Sequence[sa.Row[Any]]:
        numbers.append(number)
        return files(transfer_id, number)

    monkeypatch.setattr(service, "batch_files", counted)
    return numbers


def _planned(service: Service) -> str:
    """A transfer with a batch that is done, one with failures and an open one."""
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ['a/ü "q"', "b"])
    add_ended_batch(service, transfer_id, ["f"], state="failed", error_class="person", error_message="Denied.")
    with service.database.write() as connection:
        add_batch(connection, transfer_id, [planned("open", 2**30)])
        transfers.end_plan(connection, transfer_id, AT + 3, "worker")
    return transfer_id


def test_files_that_have_ended_are_read_once(service: Service, read: list[int]) -> None:
    transfer_id = _planned(service)
    with http_of(service) as client:
        first = client.get(f"/transfer_status/{transfer_id}").json()
        assert sorted(read) == [0, 1, 2]
        assert {name: first[name] for name in ("files", "transferred", "errors")} == {
            "files": 4,
            "transferred": 2,
            "errors": 1,
        }
        by_name = {one.pop("file"): one for one in first["filewise"]}
        start, end = round(AT * 1000), round((AT + 1.5) * 1000)
        done = {"size": 10 / 2**30, "status": "SUCCESS", "tstart": start, "tend": end, "error": "None"}
        assert by_name['a/ü "q"'] == by_name["b"] == done
        assert by_name["f"] == {**done, "status": "ERROR", "tend": None, "error": "Denied."}
        waits = {"size": 1.0, "status": "ENQUEUED", "tstart": None, "tend": None, "error": "None"}
        assert by_name["open"] == waits

        with service.database.write() as connection:
            assert batches.begin_batch(connection, transfer_id, 2, AT) is not None
        second = client.get(f"/transfer_status/{transfer_id}").json()
        assert read[3:] == [2]
        assert [one["status"] for one in second["filewise"]] == ["SUCCESS", "SUCCESS", "ERROR", "PENDING"]


@pytest.mark.every_database
def test_an_answer_is_sent_again_only_when_a_file_has_changed(service: Service, read: list[int]) -> None:
    transfer_id = _planned(service)
    with http_of(service) as client:
        path = f"/transfer_status/{transfer_id}"
        first = client.get(path)
        known = {"If-None-Match": first.headers["etag"]}
        read.clear()
        same = client.get(path, headers=known)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
        assert read == []

        with service.database.write() as connection:
            run = batches.begin_batch(connection, transfer_id, 2, AT)
            assert run is not None
            batches.end_open_objects(connection, run, batches.ObjectOutcome(state="cancelled", ended_at=AT))
            batches.end_batch(connection, run, AT)
        finish(service, transfer_id)
        changed = client.get(path, headers=known)
        assert changed.status_code == 200
        assert changed.json()["filewise"][-1]["status"] == "CANCELLED"


def test_a_client_that_takes_gzip_gets_it_and_others_do_not(service: Service) -> None:
    transfer_id = _planned(service)
    finish(service, transfer_id)
    with http_of(service) as client:
        path = f"/transfer_status/{transfer_id}"
        packed = client.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
        plain = client.get(path, headers={"Accept-Encoding": "identity, gzip;q=0"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert json.loads(plain.content)["files"] == 4
