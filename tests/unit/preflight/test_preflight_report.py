"""The report of a preflight, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.preflight import report
from seqferry.preflight.report import PredictedFailure, PreflightReport

_DENIED = PredictedFailure("AccessDenied", "GetObject", "no")


def test_objects_of_one_cause_are_one_and_their_first_message_stays() -> None:
    found = PreflightReport(objects=5)
    for number, trouble in enumerate([_DENIED, _DENIED._replace(message="also"), _DENIED._replace(code="NoSuchKey")]):
        found.add(trouble, f"k{number}", 10)

    assert [(one.code, one.count, one.bytes, one.keys, one.message) for one in found.causes] == [
        ("AccessDenied", 2, 20, ["k0", "k1"], "no"),
        ("NoSuchKey", 1, 10, ["k2"], "no"),
    ]


def test_so_many_keys_of_a_cause_are_named_and_all_are_counted() -> None:
    found = PreflightReport(objects=2000)
    for number in range(report._KEYS + 5):
        found.add(_DENIED, f"k{number}", 1)

    assert (found.causes[0].count, len(found.causes[0].keys)) == (report._KEYS + 5, report._KEYS)


def test_an_object_that_would_fail_twice_is_one_that_would_fail() -> None:
    found = PreflightReport(objects=1)
    found.add(_DENIED, "k", 1)
    found.add_all(PredictedFailure("AccessDenied", "CreateMultipartUpload", "no"), ["k"], 1, 1)

    assert found.failing == 1
    assert [one.advice is not None for one in found.causes] == [True, True]
    assert found.causes[0].advice != found.causes[1].advice


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({}, "Preflight of s3://a/: 3 objects checked, 0 would fail."),
        ({"objects": 1}, "Preflight of s3://a/: 1 object checked, 0 would fail."),
        (
            {"whole": False},
            "Preflight of s3://a/: 3 objects (the first ones; --preflight checks all) checked, 0 would fail.",
        ),
        (
            {"whole": False, "looked_up": 2, "objects_failed": 1},
            (
                "Preflight of s3://a/: 3 objects (the first ones) checked as listed, 2 of 3 looked up, at least 1 "
                "would fail."
            ),
        ),
        (
            {"looked_up": 0, "objects_failed": 1},
            "Preflight of s3://a/: 3 objects checked as listed, at least 1 would fail.",
        ),
        (
            {"looked_up": 2, "objects_failed": 3, "stopped": True},
            "Preflight of s3://a/: 3 objects checked as listed, 2 of 3 looked up, 3 would fail.",
        ),
    ],
)
def test_the_first_line_says_how_much_was_looked_at(facts: dict[str, Any], first: str) -> None:
    facts_found = report.event_data(PreflightReport(objects=3)) | facts

    assert list(report.format_report(facts_found, "s3://a/")) == [first]


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({}, "Preflight: 2 of 3 objects would fail: 2 by AccessDenied (GetObject). The others go on."),
        (
            {"looked_up": 2},
            "Preflight: at least 2 of 3 objects would fail: 2 by AccessDenied (GetObject). The others go on.",
        ),
        (
            {"whole": False},
            "Preflight: at least 2 of 3 objects would fail: 2 by AccessDenied (GetObject). The others go on.",
        ),
    ],
)
def test_a_transfer_that_goes_on_is_told_in_one_line(facts: dict[str, Any], line: str) -> None:
    found = PreflightReport(objects=3)
    for number in range(2):
        found.add(_DENIED, f"k{number}", 1000)

    assert report.format_headline(report.event_data(found) | facts) == line


@pytest.mark.parametrize(
    ("keys", "shown"), [(None, ["    k0", "    k1", "    k2"]), (2, ["    k0", "    k1", "    and 1 more"])]
)
def test_causes_are_told_with_the_next_step_and_their_keys(keys: int | None, shown: list[str]) -> None:
    found = PreflightReport(objects=3)
    for number in range(3):
        found.add(_DENIED, f"k{number}", 1000)

    lines = list(report.format_report(report.event_data(found), "s3://a/", keys=keys))[2:]

    assert lines[:2] == ["3 objects: AccessDenied (GetObject), 3,000 bytes", "  no"]
    assert lines[2].startswith("  Next: Ask the owner")
    assert lines[3:] == shown
