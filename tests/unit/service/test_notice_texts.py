"""Titles of notices, with counts of one and of many, and bodies with one next step for each cause."""

from __future__ import annotations

import pytest

from seqferry.model.locations import S3Location
from seqferry.model.messages.steps import ADVICE
from seqferry.model.models import FailureGroup, Status, Totals, TransferSpec, TransferState
from seqferry.proof.auditing import Head
from seqferry.service import notices
from seqferry.settings.channels import NoticeKind

_SPEC = TransferSpec(source=S3Location("vendor", "run42/"), target=S3Location("ours", "run42/"))


def _status(state: TransferState, totals: Totals) -> Status:
    return Status(
        id="3f2a", state=state, spec=_SPEC, totals=totals, planned=True, created_at=0.0, created_by="ada",
        started_at=0.0, ended_at=None,
    )  # fmt: skip


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
    status = _status(state, totals)

    title = notices._title(status, kind)  # pyright: ignore[reportPrivateUsage]

    assert title.startswith(f"Seqferry: {said}"), title


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (
            "done_with_failures",
            ["  Next: Check the endpoint's address and the network, then run `seqferry retry 3f2a`."],
        ),
        (
            "running",
            [
                "  Next: Check the endpoint's address and the network, then run the same cp again.",
                "Next: seqferry status 3f2a --failed",
            ],
        ),
    ],
)
def test_a_cause_stands_once_with_one_next_step(state: TransferState, steps: list[str]) -> None:
    status = _status(state, Totals(objects=23, failed=2))
    message = f"GetObject s3://vendor/run42/a: timed out. {ADVICE['check_network']}"
    cause = FailureGroup("retry", "Timeout", "GetObject", message, 2, ("run42/a",))
    command = notices._command(status, "finished")  # pyright: ignore[reportPrivateUsage]

    lines = notices._body(status, [cause], command, Head(1, "9f" * 32)).splitlines()  # pyright: ignore[reportPrivateUsage]

    assert lines.count("  GetObject s3://vendor/run42/a: timed out.") == 1
    assert [line for line in lines if "Next: " in line] == steps
