"""The recording fault proxy (``crates/testkit``, binary ``s3proxy``) as tests in Python use it.

A client talks to ``proxy.endpoint_url`` as if it were the server; credentials stay the server's. Rules are dictionaries
in the form of ``crates/testkit/src/proxy/rules.rs``, which ``Proxy.rule`` and the functions below write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from support.instrument import Instrument
from support.servers import S3Server

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One request, as the proxy saw it. See ``Record`` in ``crates/testkit/src/proxy/journal.rs``."""

    number: int
    operation: str
    method: str
    path: str
    bucket: str | None
    key: str | None
    part_number: int | None
    upload_id: str | None
    copy_source: str | None
    range: str | None
    access_key: str | None
    rule: int | None
    held_by: int | None
    upstream_status: int | None
    status: int | None
    error_code: str | None
    complete: bool
    spoiled_at: int | None
    request_bytes: int
    reply_bytes: int
    started: float
    ended: float | None
    failure: str | None

    @property
    def succeeded(self) -> bool:
        """The client was told, to the last byte, that the operation succeeded."""
        return self.complete and self.error_code is None and self.status is not None and 200 <= self.status < 300

    @property
    def took_effect(self) -> bool:
        """The server carried the operation out, whatever the client heard of it."""
        return self.upstream_status is not None and 200 <= self.upstream_status < 300


_FIELDS = frozenset(field.name for field in fields(Record))


def error(
    status: int, code: str, message: str = "", *, headers: dict[str, str] | None = None, **elements: str
) -> Action:
    """Answer an error without asking the server; ``elements`` go into the body."""
    return {
        "do": "error",
        "status": status,
        "code": code,
        "message": message or f"{code}, by order of the test",
        "headers": headers or {},
        "elements": elements,
    }


def slow_down(retry_after: int | None = None) -> Action:
    return error(503, "SlowDown", "Please reduce your request rate.", headers=_retry_after(retry_after))


def internal_error() -> Action:
    return error(500, "InternalError", "We encountered an internal error. Please try again.")


def access_denied() -> Action:
    return error(403, "AccessDenied", "Access Denied")


def archived() -> Action:
    return error(
        403, "InvalidObjectState", "The operation is not valid for the object's storage class", StorageClass="GLACIER"
    )


def expired_token() -> Action:
    return error(400, "ExpiredToken", "The provided token has expired.")


def skewed_clock(server_date: str) -> Action:
    """The server's ``Date`` as HTTP writes it."""
    message = "The difference between the request time and the current time is too large."
    return error(403, "RequestTimeTooSkewed", message, headers={"Date": server_date})


def moved(region: str) -> Action:
    return error(
        301,
        "PermanentRedirect",
        "The bucket is in another region.",
        headers={"x-amz-bucket-region": region},
        Region=region,
    )


def error_in_200(code: str = "InternalError", *, white_space: int = 0, forward: bool = False) -> Action:
    """200 with an error for a body; with ``forward`` the server carries the request out all the same."""
    return {"do": "error_in_200", "code": code, "message": "hidden", "white_space": white_space, "forward": forward}


def reset() -> Action:
    """Break the connection; the server hears nothing."""
    return {"do": "reset"}


def lose_reply() -> Action:
    """The server carries the request out; the client's connection breaks."""
    return {"do": "lose_reply"}


def truncate(keep: int) -> Action:
    """Break the connection after ``keep`` bytes of the reply's body."""
    return {"do": "truncate", "keep": keep}


def corrupt(at: int) -> Action:
    """Flip the byte at this offset of the reply's body."""
    return {"do": "corrupt", "at": at}


def corrupt_request(at: int) -> Action:
    """Flip one byte of the request's body, its headers stay: at this offset, modulo the body's length."""
    return {"do": "corrupt_request", "at": at}


def drop_header(name: str) -> Action:
    """Pass the request on without this header, as some proxies do."""
    return {"do": "drop_header", "name": name}


def delay(*, request_ms: int = 0, reply_ms: int = 0) -> Action:
    return {"do": "delay", "request_ms": request_ms, "reply_ms": reply_ms}


def hold(at: str = "request") -> Action:
    """Stop each request before (``request``) or after (``reply``) the server carries it out, until released."""
    return {"do": "hold", "at": at}


def _retry_after(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(seconds)}


class Proxy(Instrument):
    """A running proxy. A context manager: it ends with the block, or with this process."""

    def __init__(self, server: S3Server, *, address: str = "127.0.0.1") -> None:
        super().__init__("s3proxy", "--upstream", server.endpoint_url, "--listen", f"{address}:0")
        self.server = replace(server, endpoint_url=self.endpoint_url)
        """The server as seen through the proxy, for ``client`` and ``environment``."""

    # --- rules ---

    def rule(
        self,
        operations: str | Sequence[str],
        action: Action,
        *,
        bucket: str | None = None,
        key: str | None = None,
        key_is: str | None = None,
        part: int | Sequence[int] = (),
        access_key: str | None = None,
        after: int = 0,
        every: int = 1,
        times: int | None = None,
        probability: float | None = None,
        seed: int = 0,
    ) -> int:
        """Adds a rule behind those that are there.

        Args:
            operations: as S3 names them; an empty sequence for all.
            bucket, key: globs (``*`` crosses ``/``).
            key_is: one key, letter by letter.
            after: number of matching requests that pass untouched first.
            every: period: of every ``every`` requests that follow, the first is touched.
            times: most requests that are touched.
            probability: each is touched with this chance, drawn from ``seed``.

        Returns:
            The rule's id.
        """
        rule = {
            "operations": [operations] if isinstance(operations, str) else list(operations),
            "bucket": bucket,
            "key": key,
            "key_is": key_is,
            "part_numbers": [part] if isinstance(part, int) else list(part),
            "access_key": access_key,
            "after": after,
            "every": every,
            "times": times,
            "probability": probability,
            "seed": seed,
            "action": action,
        }
        return self._call("POST", "rules", rule)["ids"][0]

    def remove_rule(self, rule: int) -> None:
        """What the rule holds goes on."""
        self._call("DELETE", f"rules/{rule}")

    def clear_rules(self) -> None:
        """What they hold goes on."""
        self._call("DELETE", "rules")

    def release(self, rule: int | None = None, count: int | None = None) -> int:
        """Lets requests go on that are held now: all, or ``count``; of all rules, or one. Returns how many."""
        return self._call("POST", "release", {"rule": rule, "count": count})["released"]

    # --- what happened ---

    def log(self, operation: str | None = None, *, after: int = 0) -> list[Record]:
        """Ended requests in the order of their ends, those numbered above ``after``, of one operation or all."""
        records: list[Record] = []
        while page := self._call("GET", f"log?after={after}"):
            after = page[-1]["number"]
            records += [_record(entry) for entry in page if operation in (None, entry["operation"])]
        return records

    def in_flight(self) -> list[Record]:
        return [_record(entry) for entry in self._call("GET", "in-flight")]

    def stats(self) -> dict[str, Any]:
        """See ``Stats`` in ``crates/testkit/src/proxy/journal.rs``."""
        return self._call("GET", "stats")

    def fired(self, rule: int) -> int:
        """How many requests the rule has touched."""
        return next(entry["fired"] for entry in self.stats()["rules"] if entry["id"] == rule)

    def clear_log(self) -> None:
        self._call("DELETE", "log")

    # --- waiting; each raises TimeoutError when the deadline (seconds) passes ---

    def wait_held(self, rule: int | None = None, count: int = 1, *, deadline: float = 60.0) -> None:
        """Wait until the rule, or all together, hold ``count`` requests."""
        self._wait({"until": "held", "rule": rule, "count": count}, deadline)

    def wait_fired(self, rule: int, count: int = 1, *, deadline: float = 60.0) -> None:
        self._wait({"until": "fired", "rule": rule, "count": count}, deadline)

    def wait_requested(self, operation: str, count: int = 1, *, deadline: float = 60.0) -> None:
        """Wait until ``count`` requests of the operation have come in since the start or ``clear_log``."""
        self._wait({"until": "requested", "operation": operation, "count": count}, deadline)

    def wait_succeeded(self, operation: str, count: int = 1, *, deadline: float = 60.0) -> None:
        self._wait({"until": "succeeded", "operation": operation, "count": count}, deadline)

    def wait_idle(self, *, deadline: float = 60.0) -> None:
        """Wait until nothing is in flight."""
        self._wait({"until": "idle"}, deadline)

    def _wait(self, condition: dict[str, Any], deadline: float) -> None:
        asked = {**condition, "timeout_ms": int(deadline * 1000)}
        if not self._call("POST", "wait", asked, timeout=deadline + 10)["met"]:
            raise TimeoutError(f"waited {deadline:g} s for {condition}; the proxy counted {self.stats()}")

    def _call(self, method: str, path: str, body: Any = None, *, timeout: float = 30.0) -> Any:
        connection = HTTPConnection(urlsplit(self.endpoint_url).netloc, timeout=timeout)
        try:
            connection.request(method, f"/__proxy/{path}", json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"{method} {path}: {answer['error']}")
        return answer


def _record(entry: dict[str, Any]) -> Record:
    return Record(**{name: value for name, value in entry.items() if name in _FIELDS})


@contextmanager
def held(proxy: Proxy, operations: str | Sequence[str], *, at: str = "request", **match: Any) -> Iterator[int]:
    """Within the block matching requests stop; at its end they go on and the rule is gone."""
    rule = proxy.rule(operations, hold(at), **match)
    try:
        yield rule
    finally:
        proxy.remove_rule(rule)
