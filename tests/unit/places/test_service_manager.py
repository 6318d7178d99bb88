"""Messages to systemd, on a real socket."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from seqferry.places.service_manager import ServiceManager
from support.notify_socket import NotifySocket


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: Path):
    address = tmp_path / "notify" if request.param == "path" else f"@seqferry-test-{os.getpid()}-{time.monotonic_ns()}"
    with NotifySocket(address) as socket:
        yield socket


def test_it_tells_how_far_the_process_is(heard: NotifySocket) -> None:
    manager = ServiceManager(heard.environment())

    manager.waiting("the database")
    manager.ready()
    manager.stopping()

    assert heard.drain() == ["STATUS=Waiting for the database", "READY=1", "STATUS=", "STOPPING=1"]


def test_it_pings_while_all_parts_answer_and_no_longer(heard: NotifySocket) -> None:
    hangs = threading.Event()
    manager = ServiceManager(heard.environment(watchdog=0.3))

    with manager.feed_watchdog(lambda _: True, lambda _: not hangs.is_set()):
        for _ in range(3):
            heard.wait_for("WATCHDOG=1", deadline=10)
        hangs.set()
        asked = threading.Event()
        manager_of_silence = ServiceManager(heard.environment(watchdog=0.3))
        with manager_of_silence.feed_watchdog(lambda _: asked.set() or False):
            assert asked.wait(10)
        heard.drain()  # one may have been on its way
        with pytest.raises(TimeoutError):
            heard.wait_for("WATCHDOG=1", deadline=1)
        hangs.clear()
        heard.wait_for("WATCHDOG=1", deadline=10)


def test_parts_share_the_time_and_one_that_recovers_is_asked_again_at_once(heard: NotifySocket) -> None:
    patience: list[float] = []
    silences = iter([False] * 5)

    def part(seconds: float) -> bool:
        patience.append(seconds)
        return next(silences, True)

    with ServiceManager(heard.environment(watchdog=9)).feed_watchdog(part, lambda _: True):
        # A third of the limit after each of five silences is longer than the limit.
        heard.wait_for("WATCHDOG=1", deadline=9)

    assert patience[:6] == [1.5] * 6


def test_it_does_not_ping_after_the_end(heard: NotifySocket) -> None:
    with ServiceManager(heard.environment(watchdog=0.3)).feed_watchdog(lambda _: True):
        heard.wait_for("WATCHDOG=1", deadline=10)
    heard.drain()

    with pytest.raises(TimeoutError):
        heard.wait_for("WATCHDOG=1", deadline=1)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "300000", "WATCHDOG_PID": "1"},
    ],
)
def test_a_process_that_is_not_watched_does_not_ping(variables: dict[str, str], tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as heard:
        manager = ServiceManager({"NOTIFY_SOCKET": heard.address, **variables})
        with manager.feed_watchdog(lambda _: pytest.fail("asked")):
            manager.ready()

        assert heard.drain() == ["READY=1", "STATUS="]


def test_without_a_manager_nothing_happens() -> None:
    manager = ServiceManager({"WATCHDOG_USEC": "300000"})

    with manager.feed_watchdog(lambda _: pytest.fail("asked")):
        manager.ready()


@pytest.mark.parametrize("address", ["/no/such/folder/notify", "@seqferry-nobody", "relative"])
def test_a_manager_that_is_gone_does_no_harm(address: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"})

    with manager.feed_watchdog(lambda _: True):
        manager.ready()
        manager.stopping()


def test_a_manager_that_does_not_read_holds_up_nothing_for_long(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as heard:
        manager = ServiceManager(heard.environment())
        queue = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
        for _ in range(queue + 1):
            manager.waiting("x")
        began = time.monotonic()

        manager.stopping()

        assert time.monotonic() - began < 5
