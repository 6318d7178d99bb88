"""The exit codes of ``seqferry``, with their meanings: the only place that has them as numbers."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Everything that was requested was done; all objects are verified."""
FAILED: Final = 1
"""Some objects failed, the transfer was stopped or cancelled, or the command could not do its work."""
USAGE: Final = 2
"""The command line or a setting makes no sense; nothing was started."""
MISMATCH: Final = 3
"""At least one object arrived different from its source (and counts as failed)."""
NOTHING: Final = 4
"""No object matched."""
OUT_OF_REACH: Final = 5
"""Only a worker with other credentials can continue, and none is connected; the transfer stays on record."""
INTERRUPTED: Final = 130
"""Stopped by Ctrl-C; the work can be resumed."""


TABLE: Final = (
    (OK, "all objects verified"),
    (FAILED, "some failed"),
    (USAGE, "usage"),
    (MISMATCH, "verification mismatch"),
    (NOTHING, "nothing matched"),
    (OUT_OF_REACH, "needs other credentials"),
    (INTERRUPTED, "interrupted, resumable"),
)
"""Each code with its meaning in short."""
