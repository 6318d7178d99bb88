"""``seqferry resume`` and ``seqferry cancel``."""

from __future__ import annotations

from seqferry.cli import display, exits
from seqferry.cli.groups import End, Output, Recorded, Speed
from seqferry.cli.session import actor, session_of
from seqferry.models import ENDED_TRANSFER_STATES


def resume(recorded: Recorded, speed: Speed, output: Output) -> int:
    """Go on with a transfer and show it until it ends. Finished objects and parts are not copied again."""
    with session_of(output, speed) as session:
        found = session.service.status(recorded.transfer)
        session.service.check_folders(found)
        session.service.check_access(found)
        code = session.see_through(found.id)
        if found.state in ENDED_TRANSFER_STATES and found.state != "done":
            display.say(
                f"This transfer had ended before ({found.state}), and what has ended is not taken up again. "
                "Run its cp or sync again: what is at the target already is skipped."
            )
        return code


def cancel(recorded: Recorded, end: End, output: Output) -> int:
    """Cancel a transfer. Finished objects stay; uploads that are open are aborted."""
    with session_of(output) as session:
        found = session.service.status(recorded.transfer)
        found = session.service.cancel(found.id, actor=actor(), abandon=end.abandon)
        missing = session.service.missing(found)
        if not found.ended and found.live.workers == 0 and missing is not None:
            display.say(f"The cancel is recorded; a worker with {missing} aborts the open uploads.")
            display.say(f"  if there will be none: {session.command('cancel', found.id, '--abandon')}")
            return exits.FAILED
        # The worker aborts open uploads; without one anywhere, this process is it.
        return session.see_through(found.id, wanted="cancelled")
