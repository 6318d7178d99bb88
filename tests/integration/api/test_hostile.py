"""Hostile clients all at once: the server answers whether it is up, keeps its memory, and goes on with its transfer."""

from __future__ import annotations

import random
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
from http_client import bearer, plain_client
from mirror import SMALL, digests, fill

from seqferry.api.connections import MAX_CONNECTIONS
from seqferry.settings import tokens
from seqferry.settings.config import Settings
from support.processes import RunningProcess
from support.proxy import Proxy, held
from support.servers import S3Server
from support.waiting import eventually

MIB = 1024 * 1024
SLOW = 60
MOST_MEMORY = 100 * MIB
"""What all of this may add: one request alone cost more than 300 MiB when bodies were parsed before anything else."""

_SERVE = """
import sys
from pathlib import Path
from seqferry.api.server import serve
from seqferry.settings.config import Settings
serve(Settings.load(state_dir=Path(sys.argv[1])), port=0, ready=lambda url: print(f"listening on {url} .", flush=True))
"""


@contextmanager
def _serving(settings: Settings, **environment: str) -> Iterator[tuple[RunningProcess, str]]:
    with RunningProcess([sys.executable, "-c", _SERVE, str(settings.state_dir)], environment=environment) as process:
        yield process, process.wait_for_line(" .").split()[2]


def _peak(process: RunningProcess) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _slow_headers(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(b"POST /api/v1/transfers HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    return connection


def _body_without_token(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, suppress(ConnectionError):
        connection.sendall(
            b"POST /start_transfer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (64 * MIB)
        )
        piece = b"[{}," * (MIB // 4)
        for _ in range(16):
            connection.sendall(piece)
    return b""


def test_hostile_clients_neither_stop_nor_fill_the_server_nor_harm_its_transfer(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    make_proxy: Callable[[S3Server], Proxy],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {f"run/{number:03d}": SMALL for number in range(200)}, rng)
    proxy = make_proxy(versitygw)
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=256))
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = tmp_path / "config.toml"
        config.write_text(f'[server]\nendpoints = ["{silent_url}"]\n')
        process, url = stack.enter_context(
            _serving(sqlite_settings, SEQFERRY_CONFIG=str(config), **proxy.server.environment())
        )
        port = int(url.rsplit(":", 1)[1])
        headers = bearer(tokens.owner_file(sqlite_settings.state_dir).read_text().strip())
        # Each request on a connection of its own: one at rest is the first to be given up for a new one.
        rest = httpx.Limits(max_keepalive_connections=0)
        client = stack.enter_context(
            httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60, limits=rest)
        )
        body = {"source": f"s3://{source}/run/", "target": f"s3://{target}/in/"}
        hostile = body | {"endpoint_url": silent_url}
        before = _peak(process)
        stopped = threading.Event()

        def watch() -> list[int]:
            codes: list[int] = []
            while not stopped.wait(0.05):
                with plain_client(url, timeout=20, limits=rest) as stranger:
                    codes += [stranger.get(path).status_code for path in ("/healthz", "/readyz")]
            return codes

        pool = stack.enter_context(ThreadPoolExecutor(64))
        stack.callback(stopped.set)
        with held(proxy, "CopyObject"):  # the transfer is under way all the while
            transfer_id = client.post("/api/v1/transfers", json=body).json()["id"]
            proxy.wait_held(count=1)
            watching = pool.submit(watch)
            for _ in range(MAX_CONNECTIONS + SLOW):
                connection = stack.enter_context(_slow_headers(port))
                connection.setblocking(False)
            unanswered = [pool.submit(client.post, "/api/v1/transfers", json=hostile) for _ in range(40)]
            uninvited = [pool.submit(_body_without_token, port) for _ in range(16)]
            mistakes = [client.post("/start_transfer", json={"src_keys": [1] * 99_000}) for _ in range(5)]
            for one in uninvited:
                one.result(60)
        codes = {one.result(60).status_code for one in unanswered}

        def done() -> bool:
            return client.get(f"/api/v1/transfers/{transfer_id}").json()["state"] == "done"

        eventually(done, what="the transfer to end", deadline=60)
        stopped.set()
        healthy = watching.result(30)
        added = _peak(process) - before

    assert set(healthy) == {200}
    assert codes <= {503, 504}
    assert {(one.status_code, len(one.content) < 5000) for one in mistakes} == {(422, True)}
    assert added < MOST_MEMORY, f"{added / MIB:.0f} MiB more"
    assert digests(versitygw, target, "in/") == digests(versitygw, source, "run/")
