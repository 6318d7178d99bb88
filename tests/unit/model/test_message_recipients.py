"""Failures in plain words."""

from __future__ import annotations

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
