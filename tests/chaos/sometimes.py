"""What a run of faults meets sometimes: each lever, and states of the product that are easily missed.

A run without violations shows little where it has not met them. Each is counted; a run says which it never met, and
fails when one of those that it demands is among them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from chaos import levers, schedule

STATES: Final[dict[str, str]] = {
    "reaped": "a worker found another one gone and put its work back on the queue",
    "fenced off": "a worker found that its work was taken over",
    "lease lapsed": "a worker that the database did not answer stopped writing",
    "database waited for": "a worker started while the database was away",
    "batch taken over": "a batch of a killed worker went on at another",
    "transfer taken over": "a transfer that a killed worker supervised went on at another",
    "listing resumed": "the same while its source was still listed",
    "upload adopted": "parts of an upload were listed, and its copy went on",
    "late Complete found": "a CompleteMultipartUpload whose reply was lost was not repeated",
    "late copy found": "a copy whose reply was lost was not repeated",
    "uploads without an owner": "the reply to the creation of an upload was lost",
    "retried after 503": "a request succeeded that had been answered 503",
    "paused at a kill": "a worker was killed while a transfer was paused",
    "cancelling at a kill": "a worker was killed while a transfer was being cancelled",
    "conflict": "a transfer waited for another one into the same keys",
    "transfers cancelled": "a transfer ended as cancelled",
}
"""Names by which the run counts them, and what each says."""

ALL: Final = frozenset({*schedule.KINDS, *levers.IN_FLIGHT, *STATES})

SHORT: Final = (
    "worker.kill", "worker.freeze", "worker.term", "worker.partition", "database.kill9", "database.terminate",
    "storage.refuse", "storage.throttle", "storage.lost-replies", "simulator.throttle",
)  # fmt: skip
"""Levers that a short run begins with, so that it can demand them."""

OF_SHORT_RUNS: Final = frozenset({*SHORT, "transfer taken over", "retried after 503"})

RARE: Final = frozenset({"uploads without an owner", "cancelling at a kill", "listing resumed"})
"""Moments so short that a run of 1,000 faults misses one now and then."""

OF_LONG_RUNS: Final = ALL - RARE

LONG: Final = 600
"""Faults from which on a run demands all that is not rare."""


def missed(counted: Counter[str], demanded: frozenset[str] = ALL) -> list[str]:
    """What was never met of what is demanded."""
    return sorted(name for name in demanded if not counted[name])
