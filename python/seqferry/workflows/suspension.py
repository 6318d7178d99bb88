"""Ways to leave a step without a result, so that its workflow is taken up again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from seqferry.db import transfers


class StepSuspension(BaseException):
    """Leave a step without a result, so that its workflow stays unfinished and is taken up again.

    Not an ``Exception``: DBOS records those as the result of the step, and lets others through.
    """


class TransferPause(StepSuspension):
    """Leave a step since the transfer is paused. Its workflow is put back on the queue, where no worker takes it."""


def raise_if_paused(row: sa.Row[Any] | None) -> None:
    """Raise TransferPause when the transfer of this row is paused."""
    if row is not None and transfers.is_paused(row):
        raise TransferPause
