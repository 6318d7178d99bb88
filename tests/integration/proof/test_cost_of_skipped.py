"""The cost of a transfer with skipped objects: its rows are read once, however often it is asked for."""

from __future__ import annotations

from typing import Any

from ended import add_ended_batch, begin, finish
from http_client import http_of
from sqlalchemy import event

from seqferry.service.service import Service


def test_the_rows_of_an_ended_transfer_are_read_once_for_its_cost(service: Service) -> None:
    of = begin(service)
    add_ended_batch(service, of, ["a", "b"])
    add_ended_batch(service, of, ["c"], state="skipped", verified="etag", method=None)
    finish(service, of)
    sums: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "sum(object.size)" in statement.lower():
            sums.append(statement)

    event.listen(service.database.engine, "before_cursor_execute", note)
    with http_of(service) as client:
        asked = [client.get(f"/api/v1/transfers/{of}", params={"price": "eu-central-1"}).json() for _ in range(3)]

    assert len(sums) == 1
    costs = [one["cost"] for one in asked]
    assert costs[0] is not None
    assert costs == [costs[0]] * 3
