"""Connections of the server: bounded in number and in time, with TLS and without."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from http_client import http, http_of
from starlette.types import Receive, Scope, Send

from seqferry.api import body, connections
from seqferry.api.connections import server
from seqferry.api.tls import Tls
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from support.waiting import eventually

CERTIFICATES = Path(__file__).parents[2] / "support" / "tls"


@pytest.fixture
def client(own: Service) -> Iterator[httpx.Client]:
    with http_of(own) as made:
        yield made


def _connected(client: httpx.Client, source: str = "127.0.0.1") -> socket.socket:
    address = (client.base_url.host, client.base_url.port)
    return socket.create_connection(address, timeout=30, source_address=(source, 0))


def _until_closed(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection; a time-out fails the test."""
    read = b""
    try:
        while piece := connection.recv(65536):
            read += piece
    except ConnectionResetError:
        pass
    return read


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /he"]
)
def test_headers_that_do_not_come_end_the_connection(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with _connected(client) as connection:
        connection.sendall(sent)

        read = _until_closed(connection)

    assert read.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")


def test_a_request_that_takes_longer_than_headers_may_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await connections.asyncio.sleep(1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    with http(slow) as client:
        assert client.get("/").text == "late"
        assert client.get("/").text == "late"


def test_others_are_answered_until_the_requests_under_way_at_the_end_are(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    async def slow(scope: Scope, _receive: Receive, send: Send) -> None:
        has_begun.set()
        while scope["path"] == "/slow" and not may_end.is_set():
            await connections.asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    made: list[connections.Server] = []
    monkeypatch.setattr("http_client.server", lambda *of, **options: made.append(server(*of, **options)) or made[0])
    with http(slow) as client, ThreadPoolExecutor() as pool:
        under_way = pool.submit(client.get, "/slow")
        assert has_begun.wait(60)
        made[0].should_exit = True

        eventually(lambda: made[0].is_ending, what="the end to begin")
        with httpx.Client(base_url=client.base_url, trust_env=False) as stranger:
            assert stranger.get("/other").text == "/other"
        may_end.set()
        assert under_way.result().text == "/slow"


def test_headers_that_are_too_long_are_refused(client: httpx.Client) -> None:
    with _connected(client) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000)

        assert b"HTTP/1.1 400" in _until_closed(connection)


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
"""A second request, which a proxy that believes another length than the server takes for a part of the first one."""


@pytest.mark.parametrize(
    "lines",
    [
        ("POST /start_transfer HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("POST /start_transfer HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 0"),
        ("POST /start_transfer HTTP/1.1", "TRANSFER-ENCODING: Chunked", "content-length:  5 "),
        ("POST /api/v1/delivery/mail HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("GET /healthz HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("GET /healthz HTTP/1.1", "Content-Length: 0", "Transfer-Encoding: chunked"),
        ("GET / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("HEAD /nowhere HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("POST /start_transfer HTTP/1.0", "Connection: keep-alive", "Transfer-Encoding: chunked"),
        ("POST /start_transfer HTTP/1.1", "Content-Length: 5", "Content-Length: 6"),
        ("POST /start_transfer HTTP/1.1", "Content-Length: 5, 6"),
        ("POST /start_transfer HTTP/1.1", "Content-Length: +5"),
        ("POST /start_transfer HTTP/1.1", "Content-Length : 5"),
        ("POST /start_transfer HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("POST /start_transfer HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
        ("POST /start_transfer HTTP/1.1", "Transfer-Encoding: chunked, identity"),
        ("POST /start_transfer HTTP/1.1", "Transfer-Encoding:\x0bchunked"),
    ],
)
def test_a_request_whose_end_is_in_doubt_is_refused_and_its_connection_closed(
    client: httpx.Client, lines: tuple[str, ...]
) -> None:
    with _connected(client) as connection:
        head = [lines[0], "Host: x", f"Authorization: {client.headers['Authorization']}", *lines[1:], "", ""]
        connection.sendall("\r\n".join(head).encode() + b"0\r\n\r\n" + HIDDEN)

        answer = _until_closed(connection)

    assert answer.split(b" ")[1] in (b"400", b"501")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_it_is_refused_before_anything_else_looks_at_the_request() -> None:
    async def refusing(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    with http(refusing) as client, _connected(client) as connection:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        connection.sendall(head + HIDDEN)

        answer = _until_closed(connection)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_that_does_not_come_is_given_up(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_SILENCE_SECONDS", 0.3)
    head = [
        "POST /start_transfer HTTP/1.1",
        "Host: x",
        f"Authorization: {client.headers['Authorization']}",
        "Content-Type: application/json",
        "Content-Length: 100",
    ]
    with _connected(client) as connection:
        connection.sendall("\r\n".join([*head, "", '{"src_bucket": ']).encode())

        answer = _until_closed(connection)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer


def test_a_client_that_does_not_read_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.3)
    ended = threading.Event()

    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):  # more than all buffers between the two hold
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        finally:
            ended.set()

    with http(endless) as client, _connected(client) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ended.wait(60)
        with suppress(ConnectionResetError):
            while connection.recv(1_000_000):
                pass


def test_beyond_the_limit_a_new_connection_replaces_the_oldest_that_asks_for_nothing(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with ExitStack() as stack:
        idle = [stack.enter_context(_connected(client)) for _ in range(6)]
        stranger = stack.enter_context(httpx.Client(base_url=client.base_url, trust_env=False))

        assert stranger.get("/healthz").status_code == 200

        assert _until_closed(idle[0]) == b""
        for connection in idle[2:]:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert _until_closed(connection).startswith(b"HTTP/1.1 200 ")


def test_beyond_the_limit_a_new_connection_replaces_one_of_the_address_that_has_the_most(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with ExitStack() as stack:
        early = stack.enter_context(_connected(client))
        half = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
        early.sendall(half)

        others = [stack.enter_context(_connected(client, "127.0.0.2")) for _ in range(20)]

        early.sendall(b"Connection: close\r\n\r\n")
        assert _until_closed(early).startswith(b"HTTP/1.1 200 ")
        assert _until_closed(others[0]) == b""


def test_a_body_that_comes_byte_by_byte_is_given_up(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(body, "_BYTES_PER_SECOND", 100 * 2**20)
    token = client.headers["Authorization"]
    head = f"POST /start_transfer HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: 1000\r\n\r\n"
    with _connected(client) as connection:
        connection.sendall(head.encode())
        connection.settimeout(0.02)
        answer = b""
        for _ in range(900):
            with suppress(TimeoutError):
                if answer := connection.recv(65536):
                    break
            connection.sendall(b" ")

    assert answer.startswith(b"HTTP/1.1 408 ")


# --- TLS ---


def _tls() -> ssl.SSLContext:
    return Tls(CERTIFICATES / "server.pem", CERTIFICATES / "server.key").context()


async def _hello(scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


def test_it_speaks_https_with_a_certificate() -> None:
    trusted = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    with http(_hello, tls=_tls()) as plain:
        address = f"https://127.0.0.1:{plain.base_url.port}"
        with httpx.Client(base_url=address, verify=trusted, trust_env=False) as client:
            assert client.get("/").text == "https"
        with httpx.Client(base_url=address, trust_env=False) as stranger, pytest.raises(httpx.ConnectError):
            stranger.get("/")
        with pytest.raises(httpx.TransportError):
            plain.get("/")


def test_a_handshake_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 0.3)
    with http(_hello, tls=_tls()) as client, _connected(client) as connection:
        assert _until_closed(connection) == b""


def test_handshakes_count_as_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    trusted = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    with ExitStack() as stack:
        plain = stack.enter_context(http(_hello, tls=_tls()))
        silent = [stack.enter_context(_connected(plain)) for _ in range(4)]
        address = f"https://127.0.0.1:{plain.base_url.port}"
        client = stack.enter_context(httpx.Client(base_url=address, verify=trusted, trust_env=False))

        assert client.get("/").text == "https"
        assert _until_closed(silent[0]) == b""


def test_files_that_are_no_certificate_and_key_are_named(tmp_path: Path) -> None:
    certificate, key, text = CERTIFICATES / "server.pem", CERTIFICATES / "server.key", tmp_path / "text"
    text.write_text("hello")
    other = tmp_path / "other.key"
    locked = tmp_path / "locked.key"
    openssl = shutil.which("openssl") or pytest.skip("openssl is not installed")
    for command in (
        [openssl, "genpkey", "-algorithm", "ed25519", "-out", str(other)],
        [openssl, "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:hunter2", "-out", str(locked)],
    ):
        subprocess.run(command, check=True, capture_output=True)

    for tls, told in (
        (Tls(tmp_path / "none", key), f"--tls-cert {tmp_path / 'none'}: No such file"),
        (Tls(certificate, tmp_path / "none"), f"--tls-key {tmp_path / 'none'}: No such file"),
        (Tls(text, key), "PEM"),
        (Tls(certificate, text), "PEM"),
        (Tls(certificate, other), "belong together"),
        (Tls(certificate, locked), "without a passphrase"),
    ):
        with pytest.raises(ConfigError) as refused:
            tls.context()
        assert told in refused.value.message


def test_a_key_that_others_may_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = tmp_path / "server.key"
    key.write_bytes((CERTIFICATES / "server.key").read_bytes())
    with caplog.at_level(logging.WARNING, "seqferry.serve"):
        key.chmod(0o600)
        Tls(CERTIFICATES / "server.pem", key).context()
        assert caplog.messages == []
        key.chmod(0o640)
        Tls(CERTIFICATES / "server.pem", key).context()

    assert str(key) in caplog.text
