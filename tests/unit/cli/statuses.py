"""Makers of values that the tests of displays and summaries share."""

from __future__ import annotations

from typing import Any

from seqferry.model.locations import S3Location
from seqferry.model.models import ENDED_TRANSFER_STATES, LiveActivity, Status, Totals, TransferSpec

SPEC = TransferSpec(source=S3Location("vendor", "run42/"), target=S3Location("ours", "run42/"), strip="run42/")


def status(state: Any = "running", *, live: LiveActivity | None = None, planned: bool = True, **totals: int) -> Status:
    return Status(
        id="3f2a8c1e-0000-4000-8000-000000000000",
        state=state,
        spec=SPEC,
        totals=Totals(**totals),
        planned=planned,
        created_at=1000.0,
        created_by="ada@lab",
        started_at=1001.0,
        ended_at=1011.0 if state in ENDED_TRANSFER_STATES else None,
        live=live or LiveActivity(),
    )
