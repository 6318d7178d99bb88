"""The control plane on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from control import PLACES, settings_for

from seqferry.config import Settings
from seqferry.service import Service
from seqferry.worker import Worker


@pytest.fixture(params=PLACES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings on SQLite and on Postgres, in a fresh state folder and database."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return settings_for(tmp_path, url)


@pytest.fixture
def sqlite_settings(tmp_path: Path) -> Settings:
    return settings_for(tmp_path, None)


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with Service.open(settings) as opened:
        yield opened


@pytest.fixture
def start_worker() -> Iterator[Callable[[Service], Worker]]:
    """``start_worker(service)``: a worker in this process, stopped at the test's end."""
    started: list[Worker] = []

    def start(service: Service) -> Worker:
        started.append(Worker.start(service.settings, service))
        return started[-1]

    yield start
    for worker in started:
        assert worker.stop(timeout=30.0)
