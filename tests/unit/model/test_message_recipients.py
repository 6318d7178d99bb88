"""Failures in plain words."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.model.messages import recipients


@pytest.mark.parametrize("code", ["MissingAtTarget", "ChangedAtTarget"])
def test_what_a_verification_finds_is_not_said_to_have_arrived_damaged(code: str) -> None:
    found = recipients.explain_failure("mismatch", code, "HeadObject")
    assert found.needs == "operator"
    assert found.words.startswith("they are not at the target")
    assert found != recipients.explain_failure("mismatch", "ChecksumMismatch", "CopyObject")


@pytest.mark.parametrize(
    ("error_code", "operation", "one", "many"),
    [
        ("AccessDenied", "GetObject", "access to it was denied", "access to them was denied"),
        (
            "InvalidObjectState",
            "CopyObject",
            "it is in an archive and has to be restored first",
            "they are in an archive and have to be restored first",
        ),
    ],
)
def test_a_cause_speaks_of_one_file_or_of_many(error_code: str, operation: str, one: str, many: str) -> None:
    found = recipients.explain_failure("person", error_code, operation)

    assert (found.text(1), found.text(2), found.words) == (one, many, many)


@pytest.mark.parametrize(
    ("state", "facts", "text"),
    [
        ("arriving", {}, "445 of 448 files have arrived and are verified."),
        ("arriving", {"verified": 440}, "445 of 448 files have arrived."),
        ("arriving", {"objects": 1, "arrived": 1, "verified": 1}, "1 of 1 file has arrived and is verified."),
        ("listing", {}, "Listing files: 448 found so far."),
        ("complete", {"arrived": 448, "verified": 448}, "Complete. 448 files, all verified."),
        ("complete", {"arrived": 448, "verified": 440}, "Complete. All arrived; 440 of 448 were verified."),
        ("incomplete", {"missing": 3}, "The delivery has ended. 445 of 448 files have arrived; 3 files are missing."),
        ("failed", {"error": "why"}, "The delivery has stopped: why. 445 of 448 files have arrived."),
        ("waiting", {"waits": "It is next."}, "This delivery has not begun yet. It is next."),
        ("waiting", {}, "This delivery has not begun yet."),
    ],
)
def test_a_delivery_says_what_has_arrived(state: str, facts: dict[str, Any], text: str) -> None:
    known = {"objects": 448, "arrived": 445, "verified": 445, "missing": 0, "error": None, "waits": None, **facts}

    assert recipients.delivery_text(state, **known) == text


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (("turn", None, 1), "1 delivery comes first."),
        (("turn", None, 0), "It is next."),
        (("delivery", "Run 41", None), "It waits for Run 41."),
        (("worker", None, None), "It waits for a machine that can do it."),
    ],
)
def test_a_delivery_says_what_it_waits_for(wait: tuple[str, str | None, int | None], text: str) -> None:
    assert recipients.wait_text(*wait) == text
