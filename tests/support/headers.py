"""A proxy that keeps the headers of requests, for those that no test server shows in its answers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class HeaderRecorder:
    """Requests in the order in which they came: method, path with its query, headers in lower case."""

    endpoint_url: str
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])

    def of(self, method: str, text: str = "") -> list[dict[str, str]]:
        """Headers of the requests of a method whose path or query holds ``text``."""
        return [headers for made, path, headers in self.requests if made == method and text in path]


@contextmanager
def recording(endpoint_url: str) -> Generator[HeaderRecorder]:
    """A recorder before a server of plain HTTP."""
    upstream = urlsplit(endpoint_url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            recorder.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            connection = HTTPConnection(upstream, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            length = answer.headers.get("content-length", str(len(content)))
            for name, value in answer.headers.items():
                if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("content-length", length if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorder = HeaderRecorder(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
