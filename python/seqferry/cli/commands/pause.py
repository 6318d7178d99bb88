"""``seqferry pause``."""

from __future__ import annotations

from seqferry.cli.groups import Output, TransferSelection
from seqferry.cli.many import code_of, each, say, tell
from seqferry.cli.session import session_of


def pause(which: TransferSelection, output: Output) -> int:
    """Pause transfers. Workers leave them within a second; open uploads stay, so that no part is copied twice."""
    with session_of(output) as session:
        results = each(session, "pause", which)
        for result in tell(session, results):
            say(session, f"Paused. Go on with: {session.command('resume', result.id)}")
        return code_of(results)
