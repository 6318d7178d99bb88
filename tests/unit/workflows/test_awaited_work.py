"""Work that a draining worker waits for, and transfers that a person has paused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model import names
from seqferry.workflows import draining, suspension
from seqferry.workflows.suspension import StepSuspension, TransferPause

_ID = "3f2a8c1e-0000-4000-8000-000000000000"


@given(st.integers(min_value=0, max_value=10**8))
def test_each_batch_is_awaited(number: int) -> None:
    assert draining._is_awaited(names.batch_workflow_id(_ID, number))


@pytest.mark.parametrize(
    ("active", "is_awaited"),
    [
        (f"{draining.INLINE_PREFIX}{_ID}", True),
        *((workflow, False) for workflow in names.transfer_workflow_ids(_ID)),
        ("schedule-runs-2026", False),
        (f"{_ID}:b1", False),
        ("", False),
    ],
)
def test_a_transfer_on_the_queue_is_not_awaited_since_it_waits_for_batches_itself(
    active: str, is_awaited: bool
) -> None:
    assert draining._is_awaited(active) is is_awaited


def _row(state: str) -> Any:
    return SimpleNamespace(state=state)


def test_a_step_is_left_where_its_transfer_is_paused() -> None:
    with pytest.raises(TransferPause):
        suspension.raise_if_paused(_row("paused"))


@pytest.mark.parametrize("row", [None, *map(_row, ("queued", "planning", "running", "cancelling", "done", "failed"))])
def test_a_step_of_any_other_transfer_goes_on(row: Any) -> None:
    suspension.raise_if_paused(row)


def test_a_suspension_is_no_exception_that_a_step_could_record_as_its_result() -> None:
    assert not issubclass(StepSuspension, Exception)
    assert issubclass(TransferPause, cast("type", StepSuspension))
