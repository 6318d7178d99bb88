"""The limit of bandwidth follows its timetable while a worker runs."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import time

from seqferry.model.frozen import frozen
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.sizes import Bandwidth
from seqferry.workflows.worker import Worker
from support.waiting import eventually


@frozen
class _Day(Bandwidth):
    """A timetable on a day whose clock the test sets."""

    clock: list[time] = field(default_factory=lambda: [time(7, 59)])

    def now(self) -> int | None:
        return self.at(self.clock[0])


def test_a_running_worker_follows_the_timetable(sqlite_settings: Settings) -> None:
    day = _Day(Bandwidth.parse("08:00,50MB/s 18:00,off").changes)

    with (
        Service.open(replace(sqlite_settings, max_bandwidth=day)) as service,
        Worker.start(service.settings, service, queue=False),
    ):
        assert service.engine.bandwidth is None
        day.clock[0] = time(8, 0)
        eventually(lambda: service.engine.bandwidth == 50_000_000, what="the limit of the morning")
        day.clock[0] = time(18, 0)
        eventually(lambda: service.engine.bandwidth is None, what="the end of the limit in the evening")
