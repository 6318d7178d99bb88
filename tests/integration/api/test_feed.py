"""Events of all transfers as they happen, over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from control import spec_number
from http_client import http, http_of
from test_streams import NOBODY, Stream

from seqferry.api import create_app
from seqferry.api.streams import EventHub
from seqferry.db.feed import Position
from seqferry.db.record import events
from seqferry.db.tables import event
from seqferry.service.service import Service

pytestmark = pytest.mark.every_database  # they differ in what a reader sees beside a writer

PATH = "/api/v1/events"


@contextmanager
def _stream(client: httpx.Client, last: str | None = None, **params: Any) -> Generator[Stream]:
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", PATH, headers=headers, params=params) as response:
        assert response.status_code == 200, response.read()
        yield Stream(response)


def _append(service: Service, transfer_id: str, kind: str) -> None:
    with service.database.write() as connection:
        events.append(connection, transfer_id, time.time(), kind, "ada")


def _named(messages: list[tuple[str | None, str, Any]]) -> list[tuple[str, int]]:
    return [(data["transfer_id"], data["number"]) for _, name, data in messages if name != "position"]


def _all(service: Service) -> set[tuple[str, int]]:
    with service.database.read() as connection:
        return {(row.transfer_id, row.number) for row in connection.execute(sa.select(event))}


def test_parallel_writers_lose_no_event_to_streams_that_are_cut_off_again_and_again(service: Service) -> None:
    def write(writer: int) -> None:
        for number in range(8):
            one = service.submit(spec_number(100 * writer + number), actor="ada")
            for _ in range(3):
                _append(service, one, "more")
            if number % 2:
                service.cancel(one, actor="ada")
                _append(service, one, "after the end")

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    last = service.submit(spec_number(9999), actor="ada")
    found: list[tuple[str, int]] = []
    with http_of(service) as client, _stream(client, "0") as whole:
        for thread in writers:
            thread.start()
        position: str | None = "0"
        while len(found) < 100:
            with _stream(client, position) as cut:
                for identity, _, data in cut.messages():
                    position = identity
                    found.append((data["transfer_id"], data["number"]))
                    if len(found) % 7 == 0:
                        break
        for thread in writers:
            thread.join(60)
        _append(service, last, "end of the test")
        at_once = _named(whole.until("end of the test"))
        with _stream(client, position) as rest:
            found += _named(rest.until("end of the test"))

    for seen in (at_once, found):
        assert len(seen) == len(set(seen))
        assert set(seen) == _all(service)
        numbers: dict[str, int] = {}
        for each, number in seen:
            assert number == numbers.get(each, 0) + 1
            numbers[each] = number


def test_an_event_that_commits_after_later_ones_is_not_missed(service: Service) -> None:
    slow, quick = (service.submit(spec_number(number), actor="ada") for number in range(2))
    if service.database.is_sqlite:
        before = service.feed_position()
        _append(service, slow, "slow")
        _append(service, quick, "quick")
    else:
        with service.database.write() as connection:
            before = service.feed_position()
            events.append(connection, slow, time.time(), "slow", "ada")
            _append(service, quick, "quick")
            middle = service.feed_position()
            first, reached = service.feed_events(before, middle)
            assert [one.event.kind for one in first] == ["quick"]
        before = Position.parse(str(reached))
    found, _ = service.feed_events(before, service.feed_position())

    assert "slow" in [one.event.kind for one in found]


def test_a_long_history_comes_in_pieces_without_gaps(service: Service) -> None:
    for number in range(3):
        one = service.submit(spec_number(number), actor="ada")
        for _ in range(5):
            _append(service, one, "more")
        if number:
            service.cancel(one, actor="ada")
    until, position, found = service.feed_position(), Position(), list[tuple[str, int]]()
    while position != until:
        steps, reached = service.feed_events(position, until, limit=4)
        found += [(one.transfer_id, one.event.number) for one in steps]
        position = reached if reached == until else Position.parse(str(reached))

    assert len(found) == len(set(found))
    assert set(found) == _all(service)


def test_a_stream_begins_now_and_holds_only_the_wanted_transfers(service: Service) -> None:
    one, other = (service.submit(spec_number(number), actor="ada") for number in range(2))
    with http_of(service) as client:
        with _stream(client, transfer=one[:8]) as stream:
            first = stream.until("position")
            _append(service, other, "elsewhere")
            _append(service, one, "here")
            here = stream.until("here")
        with _stream(client, here[-1][0], transfer=one) as stream:
            _append(service, one, "later")
            later = stream.until("later")
        with _stream(client, first[-1][0]) as stream:
            again = stream.until("later")

    assert [name for _, name, _ in first + here + later] == ["position", "here", "later"]
    assert [name for _, name, _ in again] == ["elsewhere", "here", "later"]


def test_wrong_positions_and_unknown_transfers_are_problems(service: Service) -> None:
    with http_of(service) as client:
        unknown = client.get(PATH, params={"transfer": NOBODY})
        wrong = client.get(PATH, headers={"Last-Event-ID": "1~x"})

    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_request")


def test_closing_the_hub_ends_the_stream(service: Service) -> None:
    hub = EventHub(service)
    with http(create_app(service.settings, service, None, hub=hub)) as client, _stream(client) as stream:
        stream.until("position")
        hub.close()

        assert list(stream.messages()) == []
