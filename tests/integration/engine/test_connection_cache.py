"""An engine that meets many endpoints and identities holds connections to few of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

_MANY = 400

_SCRIPT = """
import os, sys
from seqferry.engine.engine import Engine
from seqferry.model.locations import S3Location

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

engine, seen = Engine(), []
for number in range(int(sys.argv[2])):
    engine.check_bucket(S3Location(bucket="bucket", endpoint_url=sys.argv[1], region=f"region-{number}"))
    if number in (99, int(sys.argv[2]) - 1):
        seen += [len(os.listdir("/proc/self/fd")), resident()]
print(*seen)
"""


@pytest.fixture
def storage() -> Iterator[str]:
    """Answers every HEAD, and keeps connections open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_connections_to_hundreds_of_regions_are_not_kept(storage: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, storage, str(_MANY)], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    early_files, early_mib, files, mib = map(int, done.stdout.split())
    # 64 that are idle, and those of Python and of the runtime; all of 400 had 483 and 71 MiB.
    assert files < 150, done.stdout
    assert files - early_files < 20, done.stdout
    assert mib - early_mib < 20, done.stdout
