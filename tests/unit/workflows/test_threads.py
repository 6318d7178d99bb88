"""Threads of a worker that repeat one act."""

from __future__ import annotations

import logging
import threading

import pytest

from seqferry.workflows.threads import Threads

_DEADLINE = 10.0


def test_an_act_that_fails_is_repeated_and_each_new_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    reasons = iter(["away", "away", "away", "", "away", "gone", "gone"])
    done = threading.Event()

    def act() -> None:
        reason = next(reasons, None)
        if reason is None:
            done.set()
        elif reason:
            raise ValueError(reason)

    threads = Threads()
    with caplog.at_level(logging.WARNING, logger="seqferry.worker"):
        threads.start("look", 0.0, act, None)
        assert done.wait(_DEADLINE)
        threads.end()

    assert [record.getMessage() for record in caplog.records] == ["look: away", "look: away", "look: gone"]


def test_nothing_is_done_any_more_after_the_end() -> None:
    acts: list[int] = []
    done = threading.Event()

    def act() -> None:
        acts.append(1)
        done.set()

    threads = Threads()
    threads.start("look", 0.0, act, None)
    assert done.wait(_DEADLINE)
    threads.end()
    before = len(acts)
    threads.end()

    assert len(acts) == before
    assert not any(thread.name == "seqferry-look" for thread in threading.enumerate())
