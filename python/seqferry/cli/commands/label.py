"""``seqferry label``."""

from __future__ import annotations

from seqferry.cli.bulk_control import report_results, say
from seqferry.cli.option_groups import Output
from seqferry.cli.session import actor, session_of
from seqferry.cli.transfer_options import RecordedTransfer, Relabelling


def label(which: RecordedTransfer, change: Relabelling, output: Output) -> int:
    """Change the name or the labels of a transfer.

    The transfer may have ended.
    """
    name, labels = change.given
    with session_of(output) as session:
        from seqferry.service import control

        status = control.set_description(session.service, which.transfer, actor=actor(), name=name, labels=labels)
        report_results(session, [control.ControlResult(status.id, status)])
        say(session, f"Written. See it with: {session.command('status', status.id)}")
    return 0
