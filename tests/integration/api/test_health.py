"""Health and readiness answer, whatever other requests and the database do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from http_client import http_of

from seqferry.api import readiness
from seqferry.service.service import Service
from support.waiting import eventually

ANY_ID = "ffffffff-0000-4000-8000-000000000000"
THREADS = 40
"""As many as the server has for requests that ask the database."""


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_health_waits_for_no_thread_of_other_requests(
    own: Service, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Semaphore(0)

    def status(_transfer_id: str) -> None:
        waiting.release()
        released.wait(60)
        raise RuntimeError("of no interest")

    monkeypatch.setattr(own, "status", status)
    with http_of(own) as client, ThreadPoolExecutor(THREADS + 10) as pool:
        asked = [pool.submit(client.get, f"/api/v1/transfers/{ANY_ID}") for _ in range(THREADS + 10)]
        for _ in range(THREADS):
            assert waiting.acquire(timeout=30)

        with httpx.Client(base_url=client.base_url, trust_env=False) as stranger:
            assert stranger.get("/healthz").json() == {"status": "ok"}
            assert stranger.get("/readyz").json() == {"status": "ready"}

        assert not any(one.done() for one in asked)
        released.set()


def test_a_database_that_does_not_answer_is_asked_once_and_said_to_be_away(
    own: Service, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_WAIT_SECONDS", 0.1)
    looks = 0

    def transfers(**_: object) -> list[object]:
        nonlocal looks
        looks += 1
        released.wait(60)
        return []

    monkeypatch.setattr(own, "transfers", transfers)
    with http_of(own) as client:
        for _ in range(20):
            answer = client.get("/readyz")
            assert (answer.status_code, "has not answered" in answer.json()["detail"]) == (503, True)
        assert client.get("/healthz").status_code == 200
        assert looks == 1

        released.set()
        eventually(lambda: client.get("/readyz").status_code == 200, what="the database to be seen again")
