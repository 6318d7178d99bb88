"""``seqferry resume``."""

from __future__ import annotations

from seqferry.cli import exits
from seqferry.cli.bulk_control import apply, exit_code, follow_all, preview, report_results, single_transfer
from seqferry.cli.option_groups import Background, Output
from seqferry.cli.output import display
from seqferry.cli.session import Session, actor, session_of
from seqferry.cli.transfer_options import TransferFilters, TransferSelection
from seqferry.model.models import DONE_STATES
from seqferry.spec.option_groups import SpeedOptions


def resume(
    which: TransferSelection, wanted: TransferFilters, background: Background, speed: SpeedOptions, output: Output
) -> int:
    """Resume transfers and show their progress. Completed objects and parts are not copied again."""
    from seqferry.service import control

    with session_of(output, speed, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "resume", which, wanted)
        if (named := single_transfer(which, wanted)) is not None:
            return _resume_one(session, named, speed, background)
        results = apply(session, "resume", which, wanted)
        if speed.tpslimit is not None:
            going_on = [result.id for result in results if result.status is not None and not result.status.ended]
            control.apply_to_each(session.service, "set", going_on, actor=actor(), tpslimit=speed.tpslimit)
        if background.detach:
            report_results(session, results)
            return exit_code(results)
        return follow_all(session, results, waits=background.wait)


def _resume_one(session: Session, wanted: str, speed: SpeedOptions, background: Background) -> int:
    from seqferry.service import control

    found = session.service.status(wanted)
    session.service.check_folders(found)
    session.service.check_access(found)
    if not found.ended:
        control.resume(session.service, found.id, actor=actor())
        if speed.tpslimit is not None:
            control.adjust(session.service, found.id, actor=actor(), tpslimit=speed.tpslimit)
    if background.detach and not found.ended:
        return exits.OK
    code = session.follow(found.id, waits=background.wait)
    if found.ended and found.state not in DONE_STATES:
        display.say(
            f"This transfer had already ended ({found.state}) and cannot be resumed. "
            f"Copy the remaining objects with: {session.command('retry', found.id)}"
        )
    return code
