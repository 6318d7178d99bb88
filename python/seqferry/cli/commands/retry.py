"""``seqferry retry``."""

from __future__ import annotations

from seqferry.cli.groups import Background, Output
from seqferry.cli.many import code_of, each, preview, say, see_all, tell
from seqferry.cli.record_groups import FailureCause, TransferFilters, TransferSelection
from seqferry.cli.session import session_of
from seqferry.spec.option_groups import SpeedOptions


def retry(
    which: TransferSelection,
    wanted: TransferFilters,
    cause: FailureCause,
    background: Background,
    speed: SpeedOptions,
    output: Output,
) -> int:
    """Copy what has failed of an ended transfer, and nothing else, as a transfer of its own."""
    with session_of(output, speed, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "retry", which, wanted)
        results = each(session, "retry", which, wanted, cause=cause.cause)
        for result in tell(session, results):
            say(session, f"transfer {result.started} retries {result.id}")
        if background.detach:
            return code_of(results)
        return see_all(session, results, works=background.work, waits=background.wait)
