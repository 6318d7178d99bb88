"""``seqferry set``."""

from __future__ import annotations

from typing import Any

from seqferry.cli.bulk_control import apply, exit_code, preview, report_results, say
from seqferry.cli.option_groups import Output
from seqferry.cli.session import session_of
from seqferry.cli.transfer_options import Change, TransferFilters, TransferSelection
from seqferry.model.errors import UsageError


def set(  # noqa: A001 - the name of the command
    which: TransferSelection, wanted: TransferFilters, change: Change, output: Output
) -> int:
    """Change the priority or the limits of running transfers.

    The workers of a transfer share its limits. The share of a worker applies to all its work.
    """
    limits = {"max_requests": change.max_requests, "max_bandwidth": change.max_bandwidth, "tpslimit": change.tpslimit}
    changes: dict[str, Any] = {**dict.fromkeys(limits), "priority": 0} if change.defaults else {}
    given = {"priority": change.priority, **limits}
    changes |= {name: value for name, value in given.items() if value is not None}
    if not changes:
        options = "--priority, --max-requests, --max-bandwidth, --tpslimit"
        raise UsageError(f"Nothing to change: give {options} or --defaults.")
    with session_of(output, reads=which.dry_run) as session:
        if which.dry_run:
            return preview(session, "set", which, wanted)
        results = apply(session, "set", which, wanted, **changes)
        for result in report_results(session, results):
            say(session, f"Set. See it with: {session.command('status', result.id)}")
        return exit_code(results)
