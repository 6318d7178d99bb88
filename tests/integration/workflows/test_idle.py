"""A worker without work asks the database little, and begins work at once nevertheless."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import sqlalchemy as sa
from control import spec_on
from mirror import fill
from sqlalchemy import event

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.servers import S3Server
from support.waiting import eventually

_WINDOW_SECONDS = 2.0
_MOST_A_SECOND = 15.0
"""Statements of an idle worker, BEGIN and the like not counted. Without rest there are 60 (SQLite) to 90."""


@contextmanager
def _statements() -> Generator[Callable[[], int]]:
    """The number of statements of this process since the block began."""
    made: list[None] = []

    def count(*_: object) -> None:
        made.append(None)

    event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        yield lambda: len(made)
    finally:
        event.remove(sa.Engine, "before_cursor_execute", count)


def _least_rate(count: Callable[[], int], windows: int = 5) -> float:
    """Statements a second in the quietest of some spans of time: what has just begun or ended may still be going on."""
    rates: list[float] = []
    for _ in range(windows):
        before, began = count(), time.monotonic()
        threading.Event().wait(_WINDOW_SECONDS)
        rates.append((count() - before) / (time.monotonic() - began))
        if rates[-1] <= _MOST_A_SECOND:
            break
    return min(rates)


def test_an_idle_worker_asks_the_database_little(settings: Settings) -> None:
    with _statements() as count, Service.open(settings) as service, Worker.start(settings, service):
        rate = _least_rate(count)
        assert rate <= _MOST_A_SECOND


def test_work_that_comes_to_an_idle_worker_begins_at_once(
    settings: Settings, versitygw: S3Server, make_bucket: Callable[..., str], rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/a": 1}, rng)
    with _statements() as count, Service.open(settings) as service, Worker.start(settings, service):
        _least_rate(count)
        # Submitted by another process, whose commits are all that this one can see of it.
        with Service.open(settings) as other:
            at = time.monotonic()
            transfer_id = other.submit(spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
            eventually(lambda: service.status(transfer_id).started_at is not None, what="the start", deadline=10.0)
            waited = time.monotonic() - at
            eventually(lambda: service.status(transfer_id).ended, what="the end")
    # Threads that rest look again after 2 s (PostgreSQL) or 15 s (SQLite) at the latest.
    assert waited < 1.5, waited
