"""Exceptions that leave a step without a result, so that its workflow runs again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from seqferry.db import transfers


class StepSuspension(BaseException):
    """Leaves a step without a result, so that its workflow stays unfinished and runs again.

    Not an ``Exception``: DBOS records those as the result of the step, and lets others through.
    """


class TransferPause(StepSuspension):
    """Leaves a step of a paused transfer. Its workflow goes back to a queue from which no worker takes."""


def raise_if_paused(row: sa.Row[Any] | None) -> None:
    """Raise TransferPause when the transfer of this row is paused."""
    if row is not None and transfers.is_paused(row):
        raise TransferPause
