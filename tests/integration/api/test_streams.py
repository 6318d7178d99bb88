"""Events as they happen, over HTTP."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from control import spec_number
from http_client import http, http_of, plain_client

from seqferry.api import authentication, create_app
from seqferry.api.streams import EventHub
from seqferry.db.record import events
from seqferry.service import tokens
from seqferry.service.service import Service

NOBODY = "ffffffff-0000-4000-8000-000000000000"


class Stream:
    """The messages of a stream, as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()

    def messages(self) -> Iterator[tuple[str | None, str, Any]]:
        """Id, name and data of each."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "data" in fields:
                yield fields.get("id"), fields["event"], json.loads(fields["data"])
            fields = {}

    def until(self, name: str) -> list[tuple[str | None, str, Any]]:
        """All messages up to the first one of this name."""
        found: list[tuple[str | None, str, Any]] = []
        for message in self.messages():
            found.append(message)
            if message[1] == name:
                return found
        raise AssertionError(f"the stream has ended without {name}: {found}")


@contextmanager
def _stream(client: httpx.Client, transfer_id: str, last: str | None = None) -> Iterator[Stream]:
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", f"/api/v1/transfers/{transfer_id}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


def _append(service: Service, transfer_id: str, kind: str, **data: Any) -> None:
    with service.database.write() as connection:
        events.append(connection, transfer_id, time.time(), kind, "ada", data)


@pytest.mark.every_database
def test_events_come_once_in_order_and_as_they_happen(service: Service) -> None:
    one, other = (service.submit(spec_number(number), actor="ada") for number in range(2))
    with http_of(service) as client, _stream(client, one[:8]) as stream:
        first = stream.until("progress")
        _append(service, other, "elsewhere")
        _append(service, one, "here", key="ä\n\u2028")
        second = stream.until("here")
        service.cancel(one, actor="ada")
        third = stream.until("cancelled")

    assert [(number, name) for number, name, _ in first] == [("1", "submitted"), (None, "progress")]
    assert (first[1][2]["id"], first[1][2]["state"]) == (one, "queued")
    assert [number for number, name, _ in second + third if name != "progress"] == ["2", "3", "4"]
    assert "elsewhere" not in {name for _, name, _ in second + third}
    here = second[-1][2]
    assert (here["number"], here["actor"], here["data"]) == (2, "ada", {"key": "ä\n\u2028"})
    assert here["hash"] == service.events(one)[1].hash


def test_a_stream_goes_on_after_the_last_event_that_was_received(service: Service) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada")
    for number in range(300):  # more than a stream keeps
        _append(service, transfer_id, "more", number=number)

    with http_of(service) as client, _stream(client, transfer_id, "200") as stream:
        found = stream.until("progress")
        _append(service, transfer_id, "last")
        with _stream(client, transfer_id, "301") as later:
            latest = later.until("last")

    assert [number for number, _, _ in found[:-1]] == [str(number) for number in range(201, 302)]
    assert [number for number, name, _ in latest if name != "progress"] == ["302"]


def test_data_that_is_too_large_for_a_stream_is_left_out(service: Service) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada")
    _append(service, transfer_id, "removing", keys=["k" * 100] * 1000)

    with http_of(service) as client, _stream(client, transfer_id, "1") as stream:
        [(_, _, event)] = stream.until("removing")

    assert event["data"]["left_out"] > 100_000


def test_a_stream_of_nothing_is_a_problem(service: Service) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada")
    with http_of(service) as client:
        unknown = client.get(f"/api/v1/transfers/{NOBODY}/events")
        wrong = client.get(f"/api/v1/transfers/{transfer_id}/events", headers={"Last-Event-ID": "x"})

    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_request")


def test_more_streams_than_the_server_holds_are_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MAX_STREAMS", 1)
    transfer_id = service.submit(spec_number(0), actor="ada")
    with http_of(service) as client, _stream(client, transfer_id) as stream:
        stream.until("progress")
        refused = client.get(f"/api/v1/transfers/{transfer_id}/events")
        listed = client.get("/api/v1/transfers")

    assert (refused.status_code, refused.json()["code"]) == (503, "busy")
    assert listed.status_code == 200


def test_one_token_does_not_take_all_streams_and_requests(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MAX_STREAMS", 4)
    transfer_id = service.submit(spec_number(0), actor="ada")
    other = tokens.add(service, "lab", "read")
    with http_of(service) as client, ExitStack() as stack:
        streams = [stack.enter_context(_stream(client, transfer_id)) for _ in range(2)]
        for stream in streams:
            stream.until("progress")
        refused = client.get(f"/api/v1/transfers/{transfer_id}/events", timeout=10)
        second = stack.enter_context(plain_client(str(client.base_url), other, timeout=60))
        streams += [stack.enter_context(_stream(second, transfer_id)) for _ in range(2)]
        for stream in streams[2:]:
            stream.until("progress")

    assert (refused.status_code, refused.json()["code"]) == (503, "busy")
    assert "2 streams with this token are under way" in refused.json()["detail"]


def test_requests_that_are_sent_by_half_leave_room_for_other_tokens(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "MAX_REQUESTS", 6)
    monkeypatch.setattr(authentication, "WAIT_SECONDS", 0.1)
    other = tokens.add(service, "lab", "read")
    with http_of(service) as client, ExitStack() as stack:
        address = (client.base_url.host, client.base_url.port)
        head = f"POST /start_transfer HTTP/1.1\r\nHost: x\r\nAuthorization: {client.headers['Authorization']}\r\n"
        half = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(6)]
        selector = stack.enter_context(selectors.PollSelector())
        for connection in half:
            selector.register(connection, selectors.EVENT_READ)
            connection.sendall(f"{head}Content-Length: 100\r\n\r\n[".encode())
        # When three are refused, the other three are under way.
        refused: list[bytes] = []
        while len(refused) < 3:
            ready = [key.fd for key, _ in selector.select(30)]
            assert ready, refused
            for connection in [one for one in half if one.fileno() in ready]:
                refused.append(connection.recv(65536))
                selector.unregister(connection)
        with plain_client(str(client.base_url), other, timeout=60) as second:
            listed = second.get("/api/v1/transfers")

    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in refused)
    assert listed.status_code == 200


def test_closing_the_hub_ends_its_streams(service: Service) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada")
    hub = EventHub(service)
    with http(create_app(service.settings, service, None, hub=hub)) as client, _stream(client, transfer_id) as stream:
        stream.until("progress")
        hub.close()
        left = list(stream.messages())

    assert all(name == "progress" for _, name, _ in left)
