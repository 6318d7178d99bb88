"""Titles of notices: counts of one and of many."""

from __future__ import annotations

import pytest

from seqferry.model.locations import S3Location
from seqferry.model.models import Status, Totals, TransferSpec, TransferState
from seqferry.service import notices
from seqferry.settings.channels import NoticeKind

_SPEC = TransferSpec(source=S3Location("vendor", "run42/"), target=S3Location("ours", "run42/"))


@pytest.mark.parametrize(
    ("kind", "state", "totals", "said"),
    [
        ("finished", "done", Totals(objects=1, done=1), "done, 1 object:"),
        ("finished", "done", Totals(objects=1204, done=1204), "done, 1,204 objects:"),
        ("finished", "done", Totals(), "done, 0 objects:"),
        ("finished", "cancelled", Totals(objects=1, cancelled=1), "cancelled, 1 object:"),
        ("person", "running", Totals(objects=5, failed=1), "1 object needs a person:"),
        ("person", "running", Totals(objects=5, failed=2), "2 objects need a person:"),
        ("finished", "done_with_failures", Totals(objects=23, failed=1), "1 of 23 objects failed:"),
    ],
)
def test_titles_count_one_object_as_one(kind: NoticeKind, state: TransferState, totals: Totals, said: str) -> None:
    status = Status(
        id="3f2a", state=state, spec=_SPEC, totals=totals, planned=True, created_at=0.0, created_by="ada",
        started_at=0.0, ended_at=None,
    )  # fmt: skip

    title = notices._title(status, kind)  # pyright: ignore[reportPrivateUsage]

    assert title.startswith(f"Seqferry: {said}"), title
