"""The report of a preflight, and its words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.model.errors import StorageError
from seqferry.planning.decision import Decision
from seqferry.preflight import report
from seqferry.preflight.report import PredictedFailure, Report

_DENIED = PredictedFailure("AccessDenied", "GetObject", "no")


def _page(*actions: tuple[str, int]) -> list[Any]:
    return [
        (SimpleNamespace(key=f"k{number}", size=size), Decision(action, f"t{number}", "Code", "why"))
        for number, (action, size) in enumerate(actions)
    ]


@pytest.mark.parametrize(
    ("page", "at_most", "objects", "size", "whole", "failed", "wanted"),
    [
        ([], None, 0, 0, True, 0, []),
        ([("copy", 1), ("skip", 2), ("refuse", 4), ("leave_out", 8)], None, 3, 7, True, 1, ["t0"]),
        ([("copy", 1), ("copy", 2)], 2, 2, 3, True, 0, ["t0", "t1"]),
        ([("copy", 1), ("copy", 2), ("copy", 4)], 2, 2, 3, False, 0, ["t0", "t1"]),
        # What is left out does not count as one that was not looked at.
        ([("copy", 1), ("copy", 2), ("leave_out", 4)], 2, 2, 3, True, 0, ["t0", "t1"]),
    ],
)
def test_objects_are_looked_at_up_to_a_number(
    page: Any, at_most: int | None, objects: int, size: int, whole: bool, failed: int, wanted: list[str]
) -> None:
    found = Report()

    looked_at = report._take(found, _page(*page), at_most)

    assert (found.objects, found.bytes, found.whole, found.troubled) == (objects, size, whole, failed)
    assert [target for _, target in looked_at] == wanted


def test_objects_of_one_cause_are_one_and_their_first_message_stays() -> None:
    found = Report(objects=5)
    for number, trouble in enumerate([_DENIED, _DENIED._replace(message="also"), _DENIED._replace(code="NoSuchKey")]):
        found.add(trouble, f"k{number}", 10)

    assert [(one.code, one.count, one.bytes, one.keys, one.message) for one in found.causes] == [
        ("AccessDenied", 2, 20, ["k0", "k1"], "no"),
        ("NoSuchKey", 1, 10, ["k2"], "no"),
    ]


def test_so_many_keys_of_a_cause_are_named_and_all_are_counted() -> None:
    found = Report(objects=2000)
    for number in range(report._KEYS + 5):
        found.add(_DENIED, f"k{number}", 1)

    assert (found.causes[0].count, len(found.causes[0].keys)) == (report._KEYS + 5, report._KEYS)


def test_an_object_that_would_fail_twice_is_one_that_would_fail() -> None:
    found = Report(objects=1)
    found.add(_DENIED, "k", 1)
    found.add_all(PredictedFailure("AccessDenied", "CreateMultipartUpload", "no"), ["k"], 1, 1)

    assert found.troubled == 1
    assert [one.advice is not None for one in found.causes] == [True, True]
    assert found.causes[0].advice != found.causes[1].advice


@pytest.mark.parametrize(
    ("error", "code", "operation"),
    [
        (StorageError("no", "person", "Forbidden", "HeadObject"), "AccessDenied", "HeadObject"),
        (StorageError("no", "person", "NoSuchBucket"), "NoSuchBucket", "HeadObject"),
        (StorageError("no"), "storage", "HeadObject"),
    ],
)
def test_a_refusal_of_the_storage_is_told_by_its_code(error: StorageError, code: str, operation: str) -> None:
    assert report._trouble(error) == PredictedFailure(code, operation, "no")


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({}, "Preflight of s3://a/: 3 objects looked at, 0 would fail."),
        ({"objects": 1}, "Preflight of s3://a/: 1 object looked at, 0 would fail."),
        (
            {"whole": False},
            "Preflight of s3://a/: 3 objects (the first ones; --preflight looks at all) looked at, 0 would fail.",
        ),
        (
            {"whole": False, "looked_up": 2, "objects_failed": 1},
            (
                "Preflight of s3://a/: 3 objects (the first ones) looked at as listed, 2 of 3 looked up, at least 1 "
                "would fail."
            ),
        ),
        (
            {"looked_up": 0, "objects_failed": 1},
            "Preflight of s3://a/: 3 objects looked at as listed, at least 1 would fail.",
        ),
        (
            {"looked_up": 2, "objects_failed": 3, "stopped": True},
            "Preflight of s3://a/: 3 objects looked at as listed, 2 of 3 looked up, 3 would fail.",
        ),
    ],
)
def test_the_first_line_says_how_much_was_looked_at(facts: dict[str, Any], first: str) -> None:
    facts_found = report.facts(Report(objects=3)) | facts

    assert list(report.lines(facts_found, "s3://a/")) == [first]


@pytest.mark.parametrize(
    ("keys", "shown"), [(None, ["    k0", "    k1", "    k2"]), (2, ["    k0", "    k1", "    and 1 more"])]
)
def test_causes_are_told_with_the_next_step_and_their_keys(keys: int | None, shown: list[str]) -> None:
    found = Report(objects=3)
    for number in range(3):
        found.add(_DENIED, f"k{number}", 1000)

    lines = list(report.lines(report.facts(found), "s3://a/", keys=keys))[2:]

    assert lines[:2] == ["3 objects: AccessDenied (GetObject), 3,000 bytes", "  no"]
    assert lines[2].startswith("  Next: Ask the owner")
    assert lines[3:] == shown
