"""What becomes of objects whose removal has no answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from seqferry.engine.engine import CHANGED_SINCE
from seqferry.model.errors import StorageError
from seqferry.model.locations import S3Location
from seqferry.workflows.operations import removed_pages
from seqferry.workflows.operations.removed_pages import Removal
from seqferry.workflows.runtime import Runtime

_WANTED = [Removal(number, f"k{number}", "etag") for number in range(4)]
_FAILED = {
    "error_message": "no",
    "error_class": "person",
    "error_code": "AccessDenied",
    "error_operation": "DeleteObject",
}
_TOLD = SimpleNamespace(
    message="all", error_class="person", error_code="NoSuchBucket", operation="DeleteObjects", job_wide=True
)


def _remove(
    monkeypatch: pytest.MonkeyPatch, told: Any = None, code: str = "AccessDenied", **how: bool
) -> dict[int, StorageError]:
    """The first was removed, the second failed, the third was cancelled, and of the fourth nothing was told."""
    ended = {0: {"state": "done"}, 1: {"state": "failed", **_FAILED, "error_code": code}, 2: {"state": "cancelled"}}
    monkeypatch.setattr(removed_pages, "collect", lambda _job, _seconds: ended)
    job = SimpleNamespace(failure=lambda: told)
    runtime = SimpleNamespace(engine=SimpleNamespace(start_remove=lambda *_a, **_k: job))
    place = S3Location("bucket", "")
    return removed_pages.remove(cast("Runtime", runtime), "t", place, _WANTED, epoch=None, **how)


def test_an_object_without_an_answer_does_not_count_as_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = _remove(monkeypatch)

    assert {number: why.error_code for number, why in failures.items()} == {
        1: "AccessDenied",
        2: "Stopped",
        3: "Stopped",
    }
    assert failures[2].is_transient


def test_the_failure_of_all_is_that_of_objects_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = _remove(monkeypatch, _TOLD)

    assert {number: why.error_code for number, why in failures.items()} == {
        1: "AccessDenied",
        2: "NoSuchBucket",
        3: "NoSuchBucket",
    }


def test_after_the_first_failure_the_others_are_not_named_where_it_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(_remove(monkeypatch, stop_at_failure=True)) == [1]


def test_an_object_that_was_written_to_since_hides_no_other_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = _remove(monkeypatch, code=CHANGED_SINCE, stop_at_failure=True)

    assert {number: why.error_code for number, why in failures.items()} == {
        1: CHANGED_SINCE,
        2: "Stopped",
        3: "Stopped",
    }
