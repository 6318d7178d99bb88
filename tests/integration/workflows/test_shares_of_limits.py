"""Shares of limits go to the processes that send requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seqferry.service.service import Service
from seqferry.workflows.runtime import Runtime


def _runtime(service: Service, on_work: Callable[[], None]) -> Runtime:
    folder = service.settings.state_dir
    return Runtime(service.database, service.queue, service.engine, folder, "executor", "session", on_work=on_work)


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_a_workflow_that_waits_for_its_batches_needs_no_share_until_they_have_ended(service: Service) -> None:
    asked: list[set[str]] = []
    runtime = _runtime(service, lambda: asked.append(runtime.requesting_transfers))

    with runtime.supervising("one"):
        with runtime.waiting("one"):
            assert runtime.requesting_transfers == set(), "its batches run elsewhere"
            with runtime.supervising("one"):  # a batch of it runs here
                assert runtime.requesting_transfers == {"one"}
            assert runtime.requesting_transfers == set()
            assert runtime.active_transfers() == ["one"], "it is shown as supervised"
        assert runtime.requesting_transfers == {"one"}, "its end may ask the storage"

    assert runtime.requesting_transfers == set()
    assert asked == [{"one"}, {"one"}, {"one"}], "at the begin, for the batch, and at the end of the wait"


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_a_wait_that_is_broken_off_asks_for_no_share(service: Service) -> None:
    asked: list[bool] = []
    runtime = _runtime(service, lambda: asked.append(True))

    with pytest.raises(RuntimeError), runtime.waiting("one"):
        raise RuntimeError

    assert (asked, runtime.requesting_transfers) == ([], set())
