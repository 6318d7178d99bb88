"""The record: reports, audits and anchors of it, the target compared with it, and its pruning."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

from seqferry.db.paging import ALL_TRANSFERS, TransferFilter
from seqferry.model.errors import ConfigError, ConflictError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import Status
from seqferry.service import lazy
from seqferry.service.queries import Queries, check_count

if TYPE_CHECKING:
    # Imported by the verb that needs them: few commands do.
    from seqferry.db.record.anchor_rows import PendingEntries
    from seqferry.db.record.findings import AuditCounts, Finding
    from seqferry.db.record.ledger import Head
    from seqferry.proof.anchors import StoredAnchors, WrittenAnchor
    from seqferry.proof.costs import CountedCost
    from seqferry.proof.pruning import PrunedTransfer
    from seqferry.proof.report import Format
    from seqferry.proof.target_verification import Difference, VerificationCounts


@frozen
class Audit:
    """An audit of the record.

    Attributes:
        findings: all that is not as it was written. The audit is made as they are read.
        counts: what was read; complete when all findings were read.
        heads: number of heads of the ledger from elsewhere that it is compared with.
        anchors: those that are stored; None where the configuration names no place for them.
    """

    findings: Iterator[Finding]
    counts: AuditCounts
    heads: int
    anchors: StoredAnchors | None


@frozen
class VerificationResult:
    """The result of a verification.

    Attributes:
        differences: objects that are not as received.
        counts: what was checked.
        verified: the id of the transfer that was verified.
        record: changes to the record of that transfer, which the verification relies on.
    """

    verified: str
    differences: Iterator[Difference]
    counts: VerificationCounts
    record: list[Finding] = field(default_factory=list["Finding"])


class AuditTrail(Queries):
    """Verbs on the audit record: reports, audits, anchors, verification, pruning."""

    def report(
        self, transfer_id: str, form: Format, findings: Sequence[Finding], price: str | None = None, page: int = 1
    ) -> Iterator[str]:
        """Everything on record of a transfer, by its whole id, in pieces; ``findings`` are those of its record.

        Args:
            price: region of AWS whose prices hold, whatever the storage is.
            page: of HTML, whose table of objects is bounded.

        Raises:
            UsageError: there are no prices of that region, or there is no such page.
        """

        return lazy.proof_report.stream(self.database, transfer_id, form, findings, price, page)

    def cost(self, status: Status, price: str | None = None) -> CountedCost | None:
        """The cost of the requests that were counted; None before the end, and where they have no price.

        Args:
            price: region of AWS whose prices hold, whatever the storage is.

        Raises:
            UsageError: there are no prices of that region.
        """
        if not status.ended:
            return None

        totals = status.totals
        with self.database.read() as connection:
            return lazy.costs.transfer_cost(
                connection,
                status.id,
                status.spec,
                skipped=totals.skipped,
                bytes_done=totals.bytes_done,
                region=price,
            )

    def verification(self, status: Status) -> VerificationResult:
        """The result of a verification, and changes to the record that it relies on.

        Raises:
            ConflictError: the transfer is not a verification.
        """

        if not status.spec.kind.verifies_record:
            raise ConflictError(f"Transfer {status.id} is not a verification, and has no result of one.")
        counts = lazy.target_verification.read_counts(self.database, status.id, is_pruned=status.pruned_at is not None)
        verified = str(status.spec.options[lazy.verification.VERIFIED_TRANSFER])
        record = self.record_findings(verified) if status.ended else []
        return VerificationResult(
            verified, lazy.target_verification.read_differences(self.database, status), counts, record
        )

    def ledger_head(self) -> Head:
        """The head of the ledger now. Kept elsewhere, it shows later that nothing before it was changed."""

        return lazy.auditing.head(self.database)

    def audit(self, heads: Sequence[str] = (), *, transfer_id: str | None = None) -> Audit:
        """Compare the record with its hashes, with ``heads`` that a person has kept, and with stored anchors.

        Args:
            transfer_id: the only transfer to check; the ledger is checked as a whole.

        Raises:
            UsageError: a text is no head of a ledger.
            StorageError: the anchors cannot be read.
        """

        known = lazy.auditing.parse_heads(heads)
        outside = None
        if self.settings.audit_anchor is not None:
            outside = lazy.anchors.read_anchors(self.database, self.engine, self.settings)
        of_anchors = [] if outside is None else outside.findings
        known += [] if outside is None else outside.known
        counts = lazy.auditing.AuditCounts()
        of_record = lazy.auditing.verify(self.database, counts, transfer_id=transfer_id, known=known)
        return Audit(chain(of_anchors, of_record), counts, len(known), outside)

    def anchor(self) -> WrittenAnchor | None:
        """Write the head of the ledger where the configuration says; None when an anchor covers it.

        Raises:
            UsageError: the configuration names no place.
            ConfigError: the anchor cannot be written.
        """

        if self.settings.audit_anchor is None:
            raise UsageError('Nothing says where anchors go; write anchor = "s3://bucket/prefix" into [audit].')
        try:
            return lazy.anchors.write_anchor(self.database, self.engine, self.settings)
        except lazy.anchors.AnchorWriteError as why:
            raise ConfigError(f"The ledger could not be anchored: {why}.".replace("..", ".")) from None

    def find_unanchored(self) -> PendingEntries | None:
        """Entries of the ledger that no anchor covers, for longer than a worker takes; None: there are none."""
        if self.settings.audit_anchor is None:
            return None

        return lazy.anchors.overdue_entries(self.database, self.settings)

    def prune(
        self,
        *,
        older_than: float,
        actor: str,
        wanted: TransferFilter = ALL_TRANSFERS,
        expected: int | None = None,
        dry_run: bool = False,
    ) -> Iterator[PrunedTransfer]:
        """Move the objects of transfers that ended more than ``older_than`` seconds ago into their receipts.

        Raises:
            UsageError: there is no such state, or a condition is empty.
            ConflictError: there are more or fewer than ``expected``, and nothing was done; or, as they are read, the
                rows of a batch are not those of its seal, and that transfer stays as it is.
        """

        wanted.check_selection()
        now = time.time()
        ended_before = now - older_than
        if expected is not None:
            check_count(lazy.pruning.count(self.database, ended_before=ended_before, wanted=wanted), expected)
        return lazy.pruning.prune(
            self.database, self.queue, ended_before=ended_before, now=now, actor=actor, wanted=wanted, dry_run=dry_run
        )
