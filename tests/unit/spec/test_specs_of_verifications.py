"""Specs of verifications, and the words of what they find."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model.errors import ConflictError
from seqferry.model.locations import S3Location
from seqferry.model.models import Status, Totals, TransferSpec
from seqferry.spec import verification


def _status(state: Any = "done", operation: str = "transfer") -> Status:
    spec: Any = TransferSpec(S3Location("from", "a/"), S3Location("to", "b/"), strip="a/", operation=operation)
    return Status("t", state, spec, Totals(), True, 0.0, "ada@lab")


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize(("operation", "archives"), [("transfer", False), ("pack", True), ("move", False)])
def test_a_verification_looks_at_the_target_as_it_was_recorded(operation: str, archives: bool, content: bool) -> None:
    spec = verification.build_verification_spec(_status(operation=operation), content=content)

    place = verification.RecordedTargets(spec).find_target("whatever")
    assert (spec.operation, spec.options[verification.VERIFIED_TRANSFER]) == ("verify", "t")
    assert (verification.CONTENT in spec.options) is content
    assert (place.place, place.holds_archives) == (S3Location("to", "b/"), archives)
    assert list(verification.place_specs(spec)) == [spec]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (_status("running"), "has not ended"),
        (_status("paused"), "has not ended"),
        (_status(operation="remove"), "nothing arrives by it"),
        (_status(operation="cleanup"), "nothing arrives by it"),
        (_status(operation="check"), "nothing arrives by it"),
        (_status(operation="verify"), "nothing arrives by it"),
    ],
)
def test_what_brings_nothing_or_has_not_ended_is_not_verified(status: Status, said: str) -> None:
    with pytest.raises(ConflictError, match=said):
        verification.build_verification_spec(status)


_TEXT = st.text(max_size=20)


@given(_TEXT, _TEXT, _TEXT)
def test_the_recorded_and_the_found_state_are_read_from_the_message(key: str, recorded: str, found: str) -> None:
    message = f"s3://to/{key}: was {recorded}; now: {found}"

    was, now = verification.parse_states(key, message)

    assert f"{was}; now: {now}" == f"{recorded}; now: {found}" or ": was " in key + recorded


@pytest.mark.parametrize(
    ("key", "message", "states"),
    [
        ("b/k", "HeadObject s3://to/b/k: was 3 bytes; now: 4 bytes", ("3 bytes", "4 bytes")),
        ("b/k: was x", "s3://to/b/k: was x: was 3 bytes; now: none", ("3 bytes", "none")),
        ("b/k", "s3://to/b/k cannot be read.", ("", "s3://to/b/k cannot be read.")),
        ("b/k", "s3://to/other: was 3; now: 4", ("", "s3://to/other: was 3; now: 4")),
        ("b/k", "s3://to/b/k: was 3 bytes", ("", "s3://to/b/k: was 3 bytes")),
        ("b/k", "", ("", "")),
    ],
)
def test_a_message_of_another_form_is_the_found_state(key: str, message: str, states: tuple[str, str]) -> None:
    assert verification.parse_states(key, message) == states
