"""A worker without work asks the database little, and begins work at once nevertheless."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import settings_for, spec_on
from mirror import fill
from sqlalchemy import event

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.idle_polling import POLL_SECONDS, WorkSignal
from seqferry.workflows.worker import Worker
from support.servers import S3Server, free_ports
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # workers are woken by each in its own way

_WINDOW_SECONDS = {True: 2.0, False: 5.0}
_MOST_A_SECOND = {True: 15.0, False: 2.4}
"""Statements of an idle worker, BEGIN and the like not counted, on SQLite or not. Without rest there are 60 (SQLite) to
90. On PostgreSQL, which serves many, a heartbeat each 2 s and its look for work make one a second."""


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


def _least_rate(count: Callable[[], int], settings: Settings, windows: int = 5) -> float:
    """Statements a second in the quietest of some spans of time: what has just begun or ended may still be going on."""
    rates: list[float] = []
    for _ in range(windows):
        before, began = count(), time.monotonic()
        threading.Event().wait(_WINDOW_SECONDS[settings.uses_sqlite])
        rates.append((count() - before) / (time.monotonic() - began))
        if rates[-1] <= _MOST_A_SECOND[settings.uses_sqlite]:
            break
    return min(rates)


def test_an_idle_worker_asks_the_database_little(settings: Settings) -> None:
    with _statements() as count, Service.open(settings) as service, Worker.start(settings, service):
        rate = _least_rate(count, settings)
        assert rate <= _MOST_A_SECOND[settings.uses_sqlite]


def test_work_that_comes_to_an_idle_worker_begins_at_once(
    settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No poll stands in for the notification: the heartbeat looks for work as well.
    for module in ("idle_polling", "threads"):
        monkeypatch.setattr(f"seqferry.workflows.{module}.POLL_SECONDS", 600.0)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/a": 1}, rng)
    with _statements() as count, Service.open(settings) as service, Worker.start(settings, service):
        _least_rate(count, settings)
        # Submitted by another process, whose commits are all that this one can see of it.
        with Service.open(settings) as other:
            transfer_id = other.submit(spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
            eventually(lambda: service.status(transfer_id).ended, what="the end")


@pytest.mark.postgres
def test_work_is_found_by_the_poll_where_no_notification_arrives(
    migrated_url: str,
    tmp_path: Path,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    rng: random.Random,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/a": 1}, rng)
    [port] = free_ports(1)
    # Nothing listens there, so that nothing tells the worker of work.
    deaf = replace(
        settings_for(tmp_path, migrated_url),
        database_direct_url=f"postgresql+psycopg://postgres@127.0.0.1:{port}/none",
    )
    with _statements() as count, Service.open(deaf) as service, Worker.start(deaf, service):
        assert _least_rate(count, deaf) <= _MOST_A_SECOND[False]  # and asks no more for it
        at = time.monotonic()
        transfer_id = service.submit(spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
        eventually(lambda: service.status(transfer_id).started_at is not None, what="the start", deadline=20.0)
        waited = time.monotonic() - at
        eventually(lambda: service.status(transfer_id).ended, what="the end")
    assert waited < POLL_SECONDS + 2.5, waited  # a heartbeat each 2 s, and what the machine takes for the rest
    lines = [record.message for record in caplog.records if "sends no notifications" in record.message]
    assert len(lines) == 1


def test_an_idle_worker_stops_without_waiting_for_its_next_look(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqferry.workflows.idle_polling.POLL_SECONDS", 600.0)
    with Service.open(settings) as service:
        signal = WorkSignal(service.database, lambda: False)
        if not settings.uses_sqlite:
            eventually(lambda: signal.count, what="the change that the start of a listener counts as")

        signal.stop()

        assert "seqferry-changes" not in {thread.name for thread in threading.enumerate()}
