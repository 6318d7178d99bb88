"""Findings of an audit, counts of the records that it checked, and heads that it compares with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from seqferry.db.record import ledger
from seqferry.db.record.ledger import Head
from seqferry.model.frozen import frozen

MAX_NAMED_OBJECTS: Final = 20
"""Objects that are named in a batch; the others are counted."""


@frozen
class Finding:
    """Something that is not as it was written.

    Attributes:
        kind: stable and machine-readable, as ``object_changed``.
        transfer_id: None for a finding about the ledger.
        row: an event as ``event 3``, a batch as ``batch 7``, an entry of the ledger as ``entry 12``; empty for a
            transfer as a whole.
    """

    kind: str
    message: str
    transfer_id: str | None = None
    row: str = ""
    key: str | None = None
    """Source key of the object."""


@dataclass(slots=True)
class AuditCounts:
    """Counts of the records that an audit checked."""

    transfers: int = 0
    objects: int = 0
    events: int = 0
    entries: int = 0
    open_batches: int = 0
    """Batches that the audit does not cover, since they have not ended."""
    head: Head = field(default_factory=lambda: Head(0, ledger.FIRST))
    keyed: bool = False
    """The last entry of the ledger was made with a key."""


@frozen
class KnownHead:
    """A head of the ledger that was kept outside.

    Attributes:
        where: for a person: ``the anchor s3://...``.
        entries: descriptions of ledger entries, by number.
    """

    head: Head
    where: str
    entries: Mapping[int, str] = field(default_factory=dict[int, str])
