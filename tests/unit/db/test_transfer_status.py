"""The status of a transfer, from its row and the reports of its workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.db import transfer_status
from seqferry.model.errors import UnsupportedError
from seqferry.model.locations import S3Location
from seqferry.model.models import LiveActivity, Totals, TransferSpec
from seqferry.spec import stored

_SPEC = stored.write(TransferSpec(S3Location("from"), S3Location("to")))
_NOTHING = Totals()
_IDLE, _AT_WORK = LiveActivity(), LiveActivity(workers=1)


def _row(**values: Any) -> Any:
    times, errors = ("started_at", "ended_at", "planned_at", "pruned_at"), ("error_code", "error_message")
    others = ("waits_for", "blocked_by", "why_blocked", "receipt_digest", "name", "labels", "retried_by")
    usual = dict.fromkeys((*times, *errors, *others, "max_requests", "max_bandwidth"))
    usual |= {"id": "1", "state": "queued", "spec": _SPEC, "created_at": 1.0, "created_by": "ada@lab"}
    return SimpleNamespace(**usual | {"priority": 0, "tpslimit": None} | values)


def _report(**values: Any) -> dict[str, Any]:
    usual = dict.fromkeys(("bytes_per_second", "in_flight", "requests", "retries", "throttled", "bytes_in_progress"), 0)
    return {**usual, "slowest": [], **values}


def _of(row: Any, totals: Totals = _NOTHING, live: LiveActivity = _IDLE, seen: int | None = None, **more: Any) -> Any:
    return transfer_status._status(row, totals, live, seen, more.get("ahead"), more.get("lacking"))


@pytest.mark.parametrize(
    ("recorded", "seen", "shown"),
    [
        (40, None, 40),
        (40, 60, 60),
        (40, 30, 40),  # a report is older than the record
        (40, 140, 100),  # never more than there is
        (100, 0, 100),
    ],
)
def test_bytes_are_those_of_the_record_or_of_the_workers_where_they_have_seen_more(
    recorded: int, seen: int | None, shown: int
) -> None:
    assert _of(_row(), Totals(bytes=100, bytes_done=recorded), seen=seen).totals.bytes_done == shown


_UNKNOWN = UnsupportedError.of("the operation 'fold'")


@pytest.mark.parametrize(
    ("row", "live", "unsupported", "words"),
    [
        (_row(), _IDLE, None, None),
        (_row(waits_for="a worker with profile lab"), _IDLE, None, "a worker with profile lab"),
        (_row(waits_for="a worker with profile lab"), _AT_WORK, None, None),
        (_row(waits_for="a worker with profile lab", state="paused"), _IDLE, None, None),
        (_row(waits_for="a worker with profile lab", ended_at=2.0), _IDLE, None, None),
        (_row(blocked_by="7"), _IDLE, None, "transfer 7, which writes to the same keys"),
        (
            _row(blocked_by="7", why_blocked="a worker with profile lab", waits_for="another"),
            _IDLE,
            None,
            "transfer 7, which writes to the same keys and waits for a worker with profile lab",
        ),
        (_row(), _IDLE, _UNKNOWN, "a worker with a version of Seqferry that knows the operation 'fold'"),
        (_row(waits_for="a worker with profile lab"), _IDLE, _UNKNOWN, "a worker with profile lab"),
        (_row(blocked_by="7"), _IDLE, _UNKNOWN, "transfer 7, which writes to the same keys"),
        # A worker of a later version is at it.
        (_row(started_at=1.0), _AT_WORK, _UNKNOWN, None),
        (_row(), _AT_WORK, _UNKNOWN, "a worker with a version of Seqferry that knows the operation 'fold'"),
    ],
)
def test_a_transfer_waits_for_what_it_lacks(
    row: Any, live: LiveActivity, unsupported: UnsupportedError | None, words: str | None
) -> None:
    assert transfer_status._waits_for(row, live, unsupported) == words


@pytest.mark.parametrize(
    ("row", "live", "words"),
    [
        (_row(), _IDLE, "a worker, and none is at the database"),
        (_row(waits_for="a worker with profile lab"), _IDLE, "a worker with profile lab"),
        (_row(), _AT_WORK, None),
        (_row(state="paused"), _IDLE, None),
    ],
)
def test_a_lack_of_any_worker_is_told_where_there_is_no_other_reason(
    row: Any, live: LiveActivity, words: str | None
) -> None:
    assert _of(row, live=live, lacking="a worker, and none is at the database").waits_for == words


def test_a_spec_of_a_later_version_is_shown_as_far_as_it_is_known() -> None:
    later = _of(_row(spec=_SPEC.replace('"operation": "transfer"', '"operation": "fold"')))

    assert later.unsupported == "the operation 'fold'"
    assert later.spec.source == S3Location("from")


def test_no_blocker_is_named_of_a_transfer_that_has_ended() -> None:
    assert _of(_row(blocked_by="7")).blocked_by == "7"
    assert _of(_row(blocked_by="7", ended_at=2.0, state="cancelled")).blocked_by is None


def test_reports_of_workers_add_up() -> None:
    slow = [{"key": f"k{number}", "size": 9, "bytes_done": 1, "seconds": float(number)} for number in range(4)]
    live, seen = transfer_status._sum_reports(
        [
            _report(bytes_per_second=10, in_flight=1, requests=5, retries=1, throttled=2, slowest=slow),
            _report(bytes_per_second=20, in_flight=2, requests=6, retries=3, throttled=4, slowest=slow[::-1]),
        ]
    )

    assert (live.workers, live.bytes_per_second, live.in_flight) == (2, 30, 3)
    assert (live.requests, live.retries, live.throttled) == (11, 4, 6)
    assert [one.seconds for one in live.slowest] == [3.0, 3.0, 2.0, 2.0, 1.0]
    assert seen is None


@given(st.lists(st.tuples(st.integers(0, 100) | st.none(), st.integers(0, 100)), max_size=5))
def test_bytes_that_workers_have_seen_are_what_is_in_progress_beyond_the_oldest_record(
    workers: list[tuple[int | None, int]],
) -> None:
    reports = [
        _report(bytes_in_progress=moving) | ({} if recorded is None else {"bytes_recorded": recorded})
        for recorded, moving in workers
    ]
    known = [recorded for recorded, _ in workers if recorded is not None]

    live, seen = transfer_status._sum_reports(reports)

    assert live.workers == len(workers)
    assert seen == (min(known) + sum(moving for _, moving in workers) if known else None)
