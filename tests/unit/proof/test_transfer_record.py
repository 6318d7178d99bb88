"""The record of a transfer for its reports: times, the latest description, and pages of objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.db.database import Database
from seqferry.db.record import receipts
from seqferry.model.labels import NOTHING, Description
from seqferry.proof import transfer_record
from seqferry.proof.transfer_record import TransferRecord


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_767_225_599_999_999, "2025-12-31T23:59:59.999999Z"),
    ],
)
def test_a_time_is_shown_to_the_microsecond_in_utc(microseconds: int | None, text: str | None) -> None:
    assert transfer_record.format_time(microseconds) == text


@given(st.integers(min_value=-(10**15), max_value=10**16))
def test_a_shown_time_is_exact(microseconds: int) -> None:
    text = transfer_record.format_time(microseconds)

    assert text is not None
    read = datetime.fromisoformat(text)
    assert round(read.replace(microsecond=0).timestamp()) * 1_000_000 + read.microsecond == microseconds


def _event(kind: str, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "data": data}


@pytest.mark.parametrize(
    ("events", "description"),
    [
        ([], NOTHING),
        ([_event("submitted")], NOTHING),
        ([_event("submitted", name="Run 42", labels={"a": "b"})], Description("Run 42", {"a": "b"})),
        (
            [_event("submitted", name="Run 42", labels={"a": "b"}), _event("described", name=None, labels={})],
            Description(None, {}),
        ),
        (
            [
                _event("described", name="One", labels={}),
                _event("described", name="Two", labels={"c": "d"}),
                _event("done", name="Three", labels={"x": "y"}),
            ],
            Description("Two", {"c": "d"}),
        ),
    ],
)
def test_the_latest_description_counts(events: list[dict[str, Any]], description: Description) -> None:
    assert transfer_record._description(events) == description


@given(
    batches=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=5),
    page=st.integers(1, 4),
    first=st.integers(0, 40),
)
def test_objects_from_any_one_on_are_the_rest_of_all(batches: list[tuple[int, bool]], page: int, first: int) -> None:
    """Whether a batch has a seal, which tells how many objects it has, changes nothing."""

    def pages(_database: Database, _transfer_id: str, number: int) -> Any:
        rows = [[f"{number} {place}", *[None] * (len(receipts.COLUMNS) - 1)] for place in range(batches[number][0])]
        return iter([rows[start : start + page] for start in range(0, len(rows), page)])

    known = object.__new__(TransferRecord)
    seals = {number: (objects, "root") for number, (objects, is_sealed) in enumerate(batches) if is_sealed}
    for name, value in {"facts": {"id": "t"}, "batches": list(range(len(batches))), "seals": seals}.items():
        object.__setattr__(known, name, value)
    database = cast("Database", None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipts, "read_pages", pages)
        everything = list(transfer_record.objects(database, known))
        rest = list(transfer_record.objects(database, known, first))

    assert len(everything) == sum(objects for objects, _ in batches)
    assert rest == everything[first:]
