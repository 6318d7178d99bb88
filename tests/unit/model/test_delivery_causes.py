"""Failures in plain words."""

from __future__ import annotations

import pytest

from seqferry.model import delivery_causes


@pytest.mark.parametrize("code", ["MissingAtTarget", "ChangedAtTarget"])
def test_what_a_verification_finds_is_not_said_to_have_arrived_damaged(code: str) -> None:
    found = delivery_causes.explain_failure("mismatch", code, "HeadObject")
    assert found.needs == "operator"
    assert found.words.startswith("they are not at the target")
    assert found != delivery_causes.explain_failure("mismatch", "ChecksumMismatch", "CopyObject")
