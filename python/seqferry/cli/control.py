"""``seqferry resume`` and ``seqferry cancel``."""

from __future__ import annotations

from typing import Annotated

import typer

from seqferry.cli import display, exits, options
from seqferry.cli.session import actor, open_session
from seqferry.models import ENDED_TRANSFER_STATES


def resume(
    transfer: options.TransferId,
    max_requests: options.MaxRequests = None,
    max_bandwidth: options.MaxBandwidth = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
    state_dir: options.StateDir = None,
) -> int:
    """Go on with a transfer and show it until it ends. Finished objects and parts are not copied again."""
    with open_session(
        as_json=as_json,
        quiet=quiet,
        progress=not no_progress,
        state_dir=state_dir,
        max_requests=max_requests,
        max_bandwidth=max_bandwidth,
        memory=memory,
    ) as session:
        found = session.service.status(transfer)
        session.service.check_folders(found)
        session.service.check_access(found)
        code = session.see_through(found.id)
        if found.state in ENDED_TRANSFER_STATES and found.state != "done":
            display.say(
                f"This transfer had ended before ({found.state}), and what has ended is not taken up again. "
                "Run its cp or sync again: what is at the target already is skipped."
            )
        return code


def cancel(
    transfer: options.TransferId,
    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            envvar="SEQFERRY_ABANDON",
            help="End it at once and leave its open uploads at the storage: for a transfer whose credentials are gone.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
    state_dir: options.StateDir = None,
) -> int:
    """Cancel a transfer. Finished objects stay; uploads that are open are aborted."""
    with open_session(as_json=as_json, quiet=quiet, progress=not no_progress, state_dir=state_dir) as session:
        found = session.service.status(transfer)
        found = session.service.cancel(found.id, actor=actor(), abandon=abandon)
        missing = session.service.missing(found)
        if not found.ended and found.live.workers == 0 and missing is not None:
            display.say(f"The cancel is recorded; a worker with {missing} aborts the open uploads.")
            display.say(f"  if there will be none: {session.command('cancel', found.id, '--abandon')}")
            return exits.FAILED
        # The worker aborts open uploads; without one anywhere, this process is it.
        return session.see_through(found.id, wanted="cancelled")
