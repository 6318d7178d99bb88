"""Objects that a retry takes up: which of them planning had refused, and which stay as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.db import failed_objects
from seqferry.model.models import cause_id


def _row(error_class: str | None, code: str | None, operation: str | None, attempts: int = 0) -> Any:
    return SimpleNamespace(
        error_class=error_class, error_code=code, error_operation=operation, attempts=attempts, error_message=None
    )


_DENIED = _row("person", "AccessDenied", "GetObject", 1)
_CANCELLED = _row(None, None, None)


@pytest.mark.parametrize(
    ("row", "is_refused"),
    [
        (_row("object", "EmptyTargetKey", "plan"), True),
        (_row("object", "EmptyTargetKey", "plan", 3), True),
        (_row("person", "Forbidden", "HeadObject"), True),
        # A run of a batch has tried it.
        (_row("person", "Forbidden", "HeadObject", 1), False),
        (_DENIED, False),
        (_CANCELLED, False),
    ],
)
def test_what_planning_has_refused_is_told_from_what_a_run_has_tried(row: Any, is_refused: bool) -> None:
    assert failed_objects._is_refused(row) is is_refused


@pytest.mark.parametrize(
    ("cause", "row", "is_carried"),
    [
        (None, _DENIED, False),
        (None, _CANCELLED, False),
        (cause_id("person", "AccessDenied", "GetObject"), _DENIED, False),
        (cause_id("person", "AccessDenied", "HeadObject"), _DENIED, True),
        (cause_id("retry", "AccessDenied", "GetObject"), _DENIED, True),
        (cause_id("person", "AccessDenied", "GetObject"), _CANCELLED, True),
    ],
)
def test_a_retry_of_one_cause_leaves_the_others_as_they_are(cause: str | None, row: Any, is_carried: bool) -> None:
    assert failed_objects._is_carried(row, cause) is is_carried


def test_a_cancelled_object_has_no_cause_and_says_so() -> None:
    code, words = failed_objects._failure(_CANCELLED)

    assert code == "Cancelled"
    assert words
    assert failed_objects._failure(_DENIED) == ("AccessDenied", "")
