"""``seqferry retry``."""

from __future__ import annotations

from seqferry.cli.bulk_control import apply, exit_code, follow_all, preview, report_results, say
from seqferry.cli.option_groups import Background, Output
from seqferry.cli.session import session_of
from seqferry.cli.transfer_options import FailureCause, TransferFilters, TransferSelection
from seqferry.spec.option_groups import SpeedOptions


def retry(
    which: TransferSelection,
    wanted: TransferFilters,
    cause: FailureCause,
    background: Background,
    speed: SpeedOptions,
    output: Output,
) -> int:
    """Copy the failed objects of ended transfers in a new transfer."""
    with session_of(output, speed, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "retry", which, wanted)
        results = apply(session, "retry", which, wanted, cause=cause.cause)
        for result in report_results(session, results):
            say(session, f"transfer {result.started} retries {result.id}")
        if background.detach:
            return exit_code(results)
        return follow_all(session, results, waits=background.wait)
