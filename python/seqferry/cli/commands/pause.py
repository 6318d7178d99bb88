"""``seqferry pause``."""

from __future__ import annotations

from seqferry.cli.groups import Output
from seqferry.cli.many import code_of, each, preview, say, tell
from seqferry.cli.record_groups import TransferFilters, TransferSelection
from seqferry.cli.session import session_of


def pause(which: TransferSelection, wanted: TransferFilters, output: Output) -> int:
    """Pause transfers. Workers leave them within a second; open uploads stay, so that no part is copied twice."""
    with session_of(output, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "pause", which, wanted)
        results = each(session, "pause", which, wanted)
        for result in tell(session, results):
            say(session, f"Paused. Go on with: {session.command('resume', result.id)}")
        return code_of(results)
