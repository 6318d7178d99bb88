"""A state of its own for transfers that ended with failed objects: ``done_with_failures``.

Rows that ended as ``done`` with failures keep the word: their receipts and the chain of their events hold it. They are
shown with the new one (``db.transfers.STATE``). The number of this migration keeps older versions away, to which a
transfer in a state that they do not know would be unfinished.
"""

from __future__ import annotations

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Changes nothing."""
