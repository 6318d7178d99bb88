"""Modules that verbs import when they are called: a command takes longer to import than to do its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqferry.model.lazy_modules import lazy_modules

__all__ = ["preflight_report", "proof_report"]  # of those that have another name here

if TYPE_CHECKING:
    from seqferry.db import autoscale as autoscale
    from seqferry.db import batches as batches
    from seqferry.db import blocking as blocking
    from seqferry.db import changes as changes
    from seqferry.db import charts as charts
    from seqferry.db import failed_objects as failed_objects
    from seqferry.db import feed as feed
    from seqferry.db import file_rows as file_rows
    from seqferry.db import gauges as gauges
    from seqferry.db import notice_rows as notice_rows
    from seqferry.db import object_pages as object_pages
    from seqferry.db import retry_chains as retry_chains
    from seqferry.db import samples as samples
    from seqferry.db import submissions as submissions
    from seqferry.db import transfer_pages as transfer_pages
    from seqferry.db import verifications as verifications
    from seqferry.db import worker_lock as worker_lock
    from seqferry.db import worker_rows as worker_rows
    from seqferry.engine import buckets as buckets
    from seqferry.engine import engine as engine
    from seqferry.planning import cleanup as cleanup
    from seqferry.planning import decision as decision
    from seqferry.planning import removals as removals
    from seqferry.preflight import dry_run as dry_run
    from seqferry.preflight import inspection as inspection
    from seqferry.preflight import report as preflight_report
    from seqferry.preflight import start as start
    from seqferry.preflight import suggestions as suggestions
    from seqferry.proof import anchors as anchors
    from seqferry.proof import auditing as auditing
    from seqferry.proof import costs as costs
    from seqferry.proof import pruning as pruning
    from seqferry.proof import report as proof_report
    from seqferry.proof import target_verification as target_verification
    from seqferry.spec import verification as verification
else:
    __getattr__ = lazy_modules(
        __name__,
        autoscale="seqferry.db.autoscale",
        batches="seqferry.db.batches",
        blocking="seqferry.db.blocking",
        changes="seqferry.db.changes",
        charts="seqferry.db.charts",
        failed_objects="seqferry.db.failed_objects",
        feed="seqferry.db.feed",
        file_rows="seqferry.db.file_rows",
        gauges="seqferry.db.gauges",
        notice_rows="seqferry.db.notice_rows",
        object_pages="seqferry.db.object_pages",
        retry_chains="seqferry.db.retry_chains",
        samples="seqferry.db.samples",
        submissions="seqferry.db.submissions",
        transfer_pages="seqferry.db.transfer_pages",
        verifications="seqferry.db.verifications",
        worker_lock="seqferry.db.worker_lock",
        worker_rows="seqferry.db.worker_rows",
        buckets="seqferry.engine.buckets",
        engine="seqferry.engine.engine",
        cleanup="seqferry.planning.cleanup",
        decision="seqferry.planning.decision",
        removals="seqferry.planning.removals",
        dry_run="seqferry.preflight.dry_run",
        inspection="seqferry.preflight.inspection",
        preflight_report="seqferry.preflight.report",
        start="seqferry.preflight.start",
        suggestions="seqferry.preflight.suggestions",
        anchors="seqferry.proof.anchors",
        auditing="seqferry.proof.auditing",
        costs="seqferry.proof.costs",
        pruning="seqferry.proof.pruning",
        proof_report="seqferry.proof.report",
        target_verification="seqferry.proof.target_verification",
        verification="seqferry.spec.verification",
    )
