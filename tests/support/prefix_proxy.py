"""A reverse proxy that shows a server below a prefix, as ``https://example.org/lab/ferry/`` is a server's ``/``."""

from __future__ import annotations

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self


class PrefixProxy:
    """Listens on loopback. A context manager. ``strays`` are requests outside of the prefix."""

    def __init__(self, port: int, prefix: str = "/lab/ferry/") -> None:
        self.strays: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self.path.startswith(prefix):
                    proxy.strays.append(self.path)
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                behind = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                behind.request(self.command, self.path[len(prefix) - 1 :], body or None, headers)
                answer = behind.getresponse()
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                # One of both sides may go at any time, as a tab that is closed.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while piece := answer.read1(65_536):
                        self.wfile.write(piece)
                        self.wfile.flush()
                behind.close()

            do_POST = do_GET  # noqa: N815
            do_PATCH = do_GET  # noqa: N815
            do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:  # type: ignore[override]
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url: Final = f"http://127.0.0.1:{self._server.server_port}{prefix}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
