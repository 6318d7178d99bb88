"""A client of a Seqferry server, for notebooks and for tasks of Airflow or Prefect::

    from seqferry import Client

    with Client("http://127.0.0.1:8080", token) as client:
        transfer_id = client.submit("s3://vendor/run42/", "s3://ours/run42/")
        transfer = client.wait(transfer_id)
        failed = [one["source_key"] for one in client.objects(transfer_id, state="failed")]

Answers are as in ``docs/use/http-api.md``: dictionaries of the JSON that the server sends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

import httpx

from seqferry.model.backoff import Backoff
from seqferry.model.models import ENDED_TRANSFER_STATES

Transfer = dict[str, Any]

_POLLS: Final = Backoff(0.2, 5.0, factor=1.5)
_ATTEMPTS: Final = 5
_PASSING: Final = frozenset({429, 502, 503, 504})


class ClientError(Exception):
    """The server has refused a request, or the transfer did not end as it should.

    Attributes:
        status: of the HTTP answer; 0 when there is none.
        code: stable and machine-readable, as ``not_found``.
        problem: the problem document.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, status, code, problem)
        self.status, self.code, self.problem = status, code, dict(problem or {})

    def __str__(self) -> str:
        return str(self.args[0])


class Client:
    """One connection pool. To be closed, or used as a context manager.

    Args:
        url: of the server; SEQFERRY_URL when not given.
        token: SEQFERRY_TOKEN when not given.
        timeout: seconds for one request.
        verify: False, or a file of certificates, as httpx has it.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = 60.0, verify: bool | str = True
    ) -> None:
        address = url or os.environ.get("SEQFERRY_URL", "http://127.0.0.1:8080")
        secret = token or os.environ.get("SEQFERRY_TOKEN", "")
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, verify=verify)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, source: str, target: str, *, idempotency_key: str | None = None, **options: Any) -> str:
        """Start a transfer; returns its id.

        Args:
            idempotency_key: the same one gives the same transfer, however often it is submitted.
            options: as in ``POST /api/v1/transfers``: ``endpoint_url``, ``recursive``, ``rules``, ``if_exists``, ...

        Raises:
            ClientError: the server has refused it.
        """
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        body = {"source": source, "target": target, **options}
        # Without a key a second try could start a second transfer.
        attempts = 1 if idempotency_key is None else _ATTEMPTS
        return self._ask("POST", "/api/v1/transfers", attempts, json=body, headers=headers)["id"]

    def transfer(self, transfer_id: str) -> Transfer:
        """The transfer, now."""
        return self._ask("GET", f"/api/v1/transfers/{transfer_id}", _ATTEMPTS)

    def transfers(self, **filters: Any) -> Iterator[Transfer]:
        """All transfers, newest first; ``filters`` as ``state``, ``text``, ``prefix``, ``person``."""
        return self._pages("/api/v1/transfers", "transfers", filters)

    def objects(self, transfer_id: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """The objects of a transfer, page by page; ``filters`` as ``state``, ``text``, ``prefix``."""
        return self._pages(f"/api/v1/transfers/{transfer_id}/objects", "objects", filters)

    def cancel(self, transfer_id: str) -> Transfer:
        """Stop the transfer; the server answers before it has ended."""
        return self._ask("POST", f"/api/v1/transfers/{transfer_id}/cancel", 1)

    def retry(self, transfer_id: str) -> str:
        """Start a transfer of the objects that have failed of an ended one, and no others; returns its id."""
        return self._ask("POST", f"/api/v1/transfers/{transfer_id}/retry", 1)["id"]

    def wait(
        self,
        transfer_id: str,
        *,
        timeout: float | None = None,
        progress: Callable[[Transfer], object] | None = None,
        check: bool = True,
    ) -> Transfer:
        """Wait until the transfer has ended; returns it.

        Args:
            timeout: seconds; None waits without end. The transfer goes on when they have passed.
            progress: called with each reading.
            check: raise when it has not ended with all objects at the target.

        Raises:
            TimeoutError: the transfer has not ended within ``timeout``.
            ClientError: the transfer has failed, was cancelled, or objects of it failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in _POLLS.pauses():
            found = self.transfer(transfer_id)
            if progress is not None:
                progress(found)
            if found["state"] in ENDED_TRANSFER_STATES:
                return _check_ended_well(found) if check else found
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(f"Transfer {transfer_id} has not ended within {timeout:g} s; it goes on.")
            time.sleep(pause)
        raise AssertionError

    def _pages(self, path: str, name: str, filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            given = dict(filters) if cursor is None else {**filters, "cursor": cursor}
            page = self._ask("GET", path, _ATTEMPTS, params=given)
            yield from page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _ask(self, method: str, path: str, attempts: int, **options: Any) -> dict[str, Any]:
        """The answer; an unavailable server is asked again."""
        for left in reversed(range(attempts)):
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as why:
                if not left:
                    raise ClientError(f"{method} {self._http.base_url}: {why}. See that the server runs.") from why
            else:
                if answer.is_success:
                    return answer.json()
                if not left or answer.status_code not in _PASSING:
                    raise _refusal(answer)
            time.sleep(1.0)
        raise AssertionError


def _refusal(answer: httpx.Response) -> ClientError:
    try:
        problem: dict[str, Any] = answer.json()
    except ValueError:
        problem = {}
    message = problem.get("detail") or f"The server has answered {answer.status_code}."
    return ClientError(str(message), answer.status_code, str(problem.get("code", "")), problem)


def _check_ended_well(found: Transfer) -> Transfer:
    failed = found["totals"]["failed"]
    if found["state"] != "done" or failed:
        left = f"{failed} of {found['totals']['objects']} objects failed. Copy these alone with: client.retry(id)"
        why = found["error_message"] or left
        raise ClientError(f"Transfer {found['id']} has ended as {found['state']}: {why}", code="transfer_failed")
    return found
