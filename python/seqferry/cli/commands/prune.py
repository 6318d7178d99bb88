"""``seqferry prune``."""

from __future__ import annotations

from typing import Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.options import duration
from seqferry.cli.output import display, text
from seqferry.cli.session import actor, open_session


def prune(
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            envvar="SEQFERRY_PRUNE_OLDER_THAN",
            metavar="TIME",
            parser=duration,
            help="Transfers that ended longer ago than this, as 90d, 12h or 30m.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Only show which they are.")
    ] = False,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Free the database of transfers that ended long ago. Their receipts stay: report, audit and verify go on.

    Example: seqferry prune --older-than 90d
    """
    count = objects = 0
    with open_session(as_json=as_json, state_dir=state_dir, reads=dry_run) as session:
        for one in session.service.prune(older_than=older_than, actor=actor(), dry_run=dry_run):
            count, objects = count + 1, objects + one.objects
            ended = text.timestamp(one.ended_at)
            if as_json:
                display.emit(
                    "pruned",
                    id=one.id,
                    ended_at=ended,
                    objects=one.objects,
                    archived_bytes=one.archived_bytes,
                    dry_run=dry_run,
                )
            else:
                print(f"{one.id}  ended {ended}  {text.count(one.objects, 'object')}")
    if not as_json:
        verb = "Would prune" if dry_run else "Pruned"
        display.say(f"{verb} {text.count(count, 'transfer')} with {text.count(objects, 'object')}; receipts stay.")
    return exits.OK
