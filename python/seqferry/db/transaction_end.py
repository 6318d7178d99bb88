"""Work of a transaction that is left to its end: so locks that many wait for are held only until the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import sqlalchemy as sa

from seqferry.settings.audit_key import AuditKey

OPTION: Final = "seqferry_transaction_end"
"""Execution option of a connection that holds the work of its transaction."""


class LedgerEntry(NamedTuple):
    """An event that the ledger is to name."""

    key: AuditKey | None
    transfer_id: str
    event_number: int
    kind: str
    event_hash: str
    at: float


@dataclass(slots=True)
class TransactionEnd:
    """Attributes: ``entries`` for the ledger, and whether threads that wait for changes are to be woken."""

    entries: list[LedgerEntry] = field(default_factory=list[LedgerEntry])
    notifies: bool = False


def of(connection: sa.Connection) -> TransactionEnd | None:
    """The end of this transaction, to which work can be left; None where it is to be done immediately."""
    return connection.get_execution_options().get(OPTION)
