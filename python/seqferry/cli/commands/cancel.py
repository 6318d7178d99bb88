"""``seqferry cancel``."""

from __future__ import annotations

from seqferry.cli import exits
from seqferry.cli.bulk_control import apply, exit_code, follow_all, preview, report_results, single_transfer
from seqferry.cli.option_groups import Background, End, Output
from seqferry.cli.output import display
from seqferry.cli.session import Session, actor, session_of
from seqferry.cli.transfer_options import TransferFilters, TransferSelection


def cancel(which: TransferSelection, wanted: TransferFilters, end: End, background: Background, output: Output) -> int:
    """Cancel transfers. Copied objects stay. Open multipart uploads are aborted."""
    with session_of(output, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "cancel", which, wanted)
        if (named := single_transfer(which, wanted)) is not None:
            return _cancel_one(session, named, abandon=end.abandon, background=background)
        results = apply(session, "cancel", which, wanted, abandon=end.abandon)
        if background.detach:
            report_results(session, results)
            return exit_code(results)
        # The worker aborts open uploads; without one anywhere, this process is it.
        return follow_all(session, results, wanted="cancelled", waits=background.wait)


def _cancel_one(session: Session, wanted: str, *, abandon: bool, background: Background) -> int:
    found = session.service.status(wanted)
    found = session.service.cancel(found.id, actor=actor(), abandon=abandon)
    missing = session.service.unmet_requirement(found)
    if not found.ended and found.live.workers == 0 and missing is not None:
        display.say(f"The cancellation is recorded. A worker with {missing} aborts the open uploads.")
        display.say(f"  without such a worker: {session.command('cancel', found.id, '--abandon')}")
        return exits.FAILED
    if background.detach:
        return exits.OK
    return session.follow(found.id, wanted="cancelled", waits=background.wait)
