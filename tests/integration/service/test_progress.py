"""Progress as it is told while results are on their way to the record."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from seqferry.db import worker_reports
from seqferry.db.tables import tally
from seqferry.db.worker_reports import Report
from seqferry.service.service import Service
from seqferry.spec.build import build_spec

_REPORT = Report(0, 0, 0, 0.0, 0, 0, 0, 0, [])


@pytest.fixture
def transfer_id(service: Service) -> str:
    found = service.submit(build_spec("s3://from/run/", "s3://to/run/"), actor="ada")
    _record(service, bytes=1000)
    return found


def _record(service: Service, **counters: int) -> None:
    with service.database.write() as connection:
        connection.execute(sa.update(tally).values(counters))


def _report(service: Service, worker: str, transfer_id: str, in_progress: int) -> None:
    report = replace(_REPORT, bytes_in_progress=in_progress)
    with service.database.write() as connection:
        recorded = worker_reports.sum_recorded_bytes(connection, [transfer_id])
        worker_reports.report(connection, service.database, worker, {transfer_id: report}, recorded)


@pytest.mark.every_database
def test_bytes_of_an_object_that_ends_are_counted_once(service: Service, transfer_id: str) -> None:
    def told() -> int:
        return service.status(transfer_id).totals.bytes_done

    _record(service, bytes_done=50)
    assert told() == 50
    _report(service, "one", transfer_id, 60)
    assert told() == 110
    # They are recorded one after the other, before the worker reports again: they were in progress before.
    for recorded, expected in ((90, 110), (110, 110), (130, 130)):
        _record(service, bytes_done=recorded)
        assert told() == expected
    _report(service, "one", transfer_id, 20)
    assert told() == 150
    _report(service, "two", transfer_id, 30)
    assert told() == 180
    _record(service, bytes_done=990)
    _report(service, "one", transfer_id, 100)
    assert told() == 990, "the older of two reports decides what was recorded before them"
    _report(service, "two", transfer_id, 100)
    assert told() == 1000, "never more than there is"
