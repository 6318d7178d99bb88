"""A proxy before an S3 server that rewrites replies as a Python function says: faults that are particular to a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from support.servers import S3Server

_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


@dataclass(slots=True)
class Reply:
    """A reply of the server, which a rewriter may change."""

    method: str
    target: str
    request_headers: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes


Rewriter = Callable[[Reply], None]


@dataclass(slots=True)
class Rewriting:
    """A running proxy: the server as seen through it, and the requests that came."""

    server: S3Server
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for known, target in self.requests if known == method and part in target)


@contextmanager
def rewriting(server: S3Server, rewrite: Rewriter, *, chunked: bool = False) -> Generator[Rewriting]:
    """Passes each request on, and its reply through ``rewrite``, until the block ends.

    Args:
        server: the server behind the proxy.
        rewrite: changes a reply.
        chunked: replies to GET state no length: their bodies end with their last chunk.
    """
    upstream = urlsplit(server.endpoint_url)
    seen = Rewriting(server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            seen.requests.append((self.command, self.path))
            connection = HTTPConnection(upstream.hostname or "", upstream.port, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            try:
                # A server that refuses a body may answer without having read it.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.endheaders(body)
                answer = connection.getresponse()
            except (OSError, HTTPException):  # as the server does, also where the client was killed amid its body
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in answer.getheaders()}
            asked = {name.lower(): value for name, value in self.headers.items()}
            reply = Reply(self.command, self.path, asked, answer.status, headers, answer.read())
            connection.close()
            rewrite(reply)
            length = reply.headers.get("content-length", "0") if self.command == "HEAD" else None
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                if name not in _HOP:
                    self.send_header(name, value)
            if chunked and self.command == "GET":
                self.send_header("transfer-encoding", "chunked")
                size = b"%x\r\n" % len(reply.body)
                reply.body = (size + reply.body + b"\r\n" if reply.body else b"") + b"0\r\n\r\n"
            else:
                self.send_header("content-length", length or str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Nothing: pytest shows what a test prints."""

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.pass_on)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        seen.server = replace(server, endpoint_url=f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            http.shutdown()
            thread.join()
