"""Shares of gateways whose files wait for long."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.model.workers import NO_ACTIVITY, WAITING, Process, ProcessStatus
from seqferry.workflows import share_watch
from seqferry.workflows.share_watch import ShareWatch

_AFTER = 600.0


def _gateway(shares: dict[str, Any] | None, name: str = "gw", *, alive: bool = True) -> ProcessStatus:
    facts = {} if shares is None else {WAITING: shares}
    activity = NO_ACTIVITY.__class__((), None, None, 0, 0, facts=facts)
    return ProcessStatus(Process(name, "gateway", "host", 1, "1", "head", "1"), activity, 0.0, 0.0, alive)


def _share(oldest: float | None, **more: Any) -> dict[str, Any]:
    return {"oldest_dirty_seconds": oldest, **more}


_RUNS = share_watch.subject_of("gw", "runs")


@pytest.mark.parametrize(
    ("processes", "found"),
    [
        ([], []),
        ([_gateway(None)], []),
        ([_gateway({})], []),
        ([_gateway({"runs": _share(None)})], []),
        ([_gateway({"runs": _share(_AFTER - 1)})], []),
        ([_gateway({"runs": _share(_AFTER)})], [_RUNS]),
        ([_gateway({"runs": _share(_AFTER, window_is_open=False)})], []),
        ([_gateway({"runs": _share(_AFTER, window_is_open=True)})], [_RUNS]),
        ([_gateway({"runs": _share(_AFTER)}, alive=False)], []),
        (
            [_gateway({"runs": _share(_AFTER), "b": _share(0)}), _gateway({"runs": _share(9e9)}, "other")],
            [_RUNS, share_watch.subject_of("other", "runs")],
        ),
    ],
)
def test_a_share_whose_oldest_file_waits_too_long_is_found(processes: list[ProcessStatus], found: list[Any]) -> None:
    watch = ShareWatch(_AFTER)
    watch.find_waiting(processes, now=0.0)

    assert watch.find_waiting(processes, now=_AFTER) == found


def test_a_share_is_watched_for_as_long_before_it_is_found() -> None:
    watch, late = ShareWatch(_AFTER), [_gateway({"runs": _share(9e9)})]

    assert watch.find_waiting(late, now=50.0) == []
    assert watch.find_waiting(late, now=50.0 + _AFTER - 1) == []
    assert watch.find_waiting(late, now=50.0 + _AFTER) == [_RUNS]


@pytest.mark.parametrize("between", [[], [_gateway({"runs": _share(9e9, window_is_open=False)})]])
def test_a_share_that_was_away_or_outside_its_window_is_watched_anew(between: list[ProcessStatus]) -> None:
    watch, late = ShareWatch(_AFTER), [_gateway({"runs": _share(9e9)})]
    watch.find_waiting(late, now=0.0)
    watch.find_waiting(between, now=_AFTER - 1)

    assert watch.find_waiting(late, now=_AFTER) == []
    assert watch.find_waiting(late, now=2 * _AFTER) == [_RUNS]
