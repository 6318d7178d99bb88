"""``seqferry pause``."""

from __future__ import annotations

from seqferry.cli.bulk_control import apply, exit_code, preview, report_results, say
from seqferry.cli.option_groups import Output
from seqferry.cli.session import session_of
from seqferry.cli.transfer_options import TransferFilters, TransferSelection


def pause(which: TransferSelection, wanted: TransferFilters, output: Output) -> int:
    """Pause transfers. Workers stop within a second. Open uploads are kept, so no part is copied twice."""
    with session_of(output, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "pause", which, wanted)
        results = apply(session, "pause", which, wanted)
        for result in report_results(session, results):
            say(session, f"Paused. Continue with: {session.command('resume', result.id)}")
        return exit_code(results)
