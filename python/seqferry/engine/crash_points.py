"""Named points before and after each durable effect, at which a test has a process end as by a kill.

``SEQFERRY_CRASH_AT=NAME`` or ``NAME:N`` ends it at the N-th time that it comes there. Points of steps and rows are in
``POINTS``, those of shares that are written in ``SHARES``, ``CLAIMS``, ``EPOCHS`` and ``EPOCH_ROWS``; each request of
the engine that changes a storage has one before and one after it (``REQUESTS``). It is for tests only: a process that
is ended so leaves what a kill leaves, and all of it is taken up again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Final

from seqferry.model.errors import UsageError

VARIABLE: Final = "SEQFERRY_CRASH_AT"

POINTS: Final = frozenset(
    {
        "before-submission-recorded",
        "after-submission-recorded",
        "after-plan-begun",
        "before-batches-recorded",
        "after-batches-recorded",
        "before-plan-ended",
        "after-plan-ended",
        "after-batch-begun",
        "before-upload-recorded",
        "after-upload-recorded",
        "before-results-recorded",
        "after-results-recorded",
        "before-batch-ended",
        "after-batch-ended",
        "before-given-up-aborted",
        "after-given-up-aborted",
        "before-sources-recorded",
        "after-sources-recorded",
        "after-sources-removed",
        "before-extras-recorded",
        "after-extras-recorded",
        "after-extras-removed",
        "before-transfer-ended",
        "after-transfer-ended",
        "before-schedule-run-recorded",
        "after-schedule-run-recorded",
    }
)

REQUESTS: Final = frozenset(
    f"{when}-{request}"
    for when in ("before", "after")
    for request in (
        "AbortMultipartUpload",
        "CompleteMultipartUpload",
        "CopyObject",
        "CreateMultipartUpload",
        "DeleteObject",
        "DeleteObjects",
        "PutObject",
        "UploadPart",
        "UploadPartCopy",
    )
)
"""As ``crates/store/src/crash_point.rs`` has them."""

SHARES: Final = frozenset(
    {
        "before-data-written",
        "after-data-written",
        "before-data-synced",
        "after-data-synced",
        "before-data-removed",
        "after-data-removed",
        "before-journal-written",
        "after-journal-written",
        "after-journal-synced",
        "before-upload-announced",
        "after-upload-announced",
        "before-upload-id-recorded",
        "after-upload-id-recorded",
        "before-upload-finished",
        "after-upload-finished",
        "before-removal-finished",
        "after-removal-finished",
        "before-folder-moved",
        "after-folder-moved",
    }
)
"""Of shares that are written, as ``crates/gateway`` has them."""

PARTS: Final = frozenset(
    {
        "before-parts-announced",
        "after-parts-announced",
        "before-parts-recorded",
        "after-parts-recorded",
        "before-parts-completed",
        "after-parts-completed",
    }
)
"""Of the parts of files that grow, as ``crates/gateway`` has them."""

CLAIMS: Final = frozenset({"before-claim-made", "after-claim-made", "before-claim-removed", "after-claim-removed"})
"""Of the claims of such shares, at their start and at their end."""

EPOCHS: Final = frozenset(
    {
        "before-epoch-written",
        "after-epoch-written",
        "after-epoch-frozen",
        "before-epoch-forgotten",
        "after-epoch-forgotten",
    }
)
"""Of the outcomes of their uploads, as ``crates/gateway`` has them."""

EPOCH_ROWS: Final = frozenset({"before-epoch-recorded", "after-epoch-recorded"})
"""Of those outcomes on record: these are the control plane's."""


class _Armed:
    name = ""
    visits_left = 0


def arm(environment: Mapping[str, str]) -> None:
    """Take the order that stands in an environment, if there is one.

    Raises:
        UsageError: no point has this name, or the number is not valid.
    """
    if not (text := environment.get(VARIABLE, "")):
        return
    name, _, number = text.partition(":")
    if name not in POINTS | REQUESTS | SHARES | CLAIMS | EPOCHS | EPOCH_ROWS or not (number or "1").isdecimal():
        raise UsageError(f"{VARIABLE}={text}: no crash point is called so. It is NAME or NAME:N, for tests only.")
    visit = max(1, int(number or 1))
    if name in REQUESTS | SHARES | CLAIMS | EPOCHS:
        from seqferry.engine.engine import Engine  # commands that only look at rows do without the engine

        Engine.arm_crash(name, visit)
    else:
        _Armed.name, _Armed.visits_left = name, visit


def reach(name: str) -> None:
    """Pass a crash point. Kills the process if the point is armed for this visit."""
    if name == _Armed.name:
        _Armed.visits_left -= 1
        if _Armed.visits_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
