"""AWS DataSync, modelled from its documented prices and known rates: it cannot be measured from a user's machine.

DataSync runs tasks between locations, with an agent beside the user's disk. The figures here are computed, and labelled
as computed wherever they are shown. Best rates: 10 Gb/s for one agent, as documented; 622 MiB/s from S3 to S3, as the
authors of S3Mirror measured (11.88 TiB in 5.6 hours). Preparing, listing and verifying are not included, nor are the
prices of S3 requests.
"""

from __future__ import annotations

from typing import Final

from seqferry.bench.workload import Workload
from seqferry.model import prices
from seqferry.model.frozen import frozen

LABEL: Final = "modelled, not measured"


@frozen
class Mode:
    name: str
    price: str
    """Name of the price of its bytes."""
    task: str | None
    """Name of the price of each task, where that is paid."""
    bytes_per_second: float
    """Rate at best."""
    basis: str


MODES: Final = (
    Mode(
        "AWS DataSync, Basic mode", "datasync-basic", None, 10e9 / 8, "at best what one agent is said to reach, 10 Gb/s"
    ),
    Mode(
        "AWS DataSync, Enhanced mode",
        "datasync-enhanced",
        "datasync-enhanced-task",
        622 * 2**20,
        "at best what was measured from S3 to S3 by S3Mirror's authors",
    ),
)


@frozen
class DataSyncEstimate:
    """Modelled price and best rate of moving a workload once by DataSync."""

    mode: str
    workload: str
    dollars: float
    bytes_per_second_at_best: float
    seconds_at_best: float
    """By the rate alone, without preparing, listing and verifying."""
    basis: str
    label: str = LABEL


def model(workload: Workload) -> list[DataSyncEstimate]:
    return [
        DataSyncEstimate(
            mode=mode.name,
            workload=workload.name,
            dollars=prices.cost(mode.price, workload.total) + (prices.cost(mode.task, 1) if mode.task else 0.0),
            bytes_per_second_at_best=mode.bytes_per_second,
            seconds_at_best=workload.total / mode.bytes_per_second,
            basis=mode.basis,
        )
        for mode in MODES
    ]
