"""``seqferry prune``."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from seqferry.cli import exits, options
from seqferry.cli.options import duration
from seqferry.cli.output import display, text
from seqferry.cli.session import actor, open_session
from seqferry.cli.transfer_options import TransferFilters
from seqferry.model.frozen import frozen


@frozen
class Pruning:
    """Options that say how old transfers are pruned."""

    PANEL: ClassVar = "Options"

    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="TIME",
            parser=duration,
            help="Prune transfers that ended before this age, as 90d, 12h or 30m.",
        ),
    ]
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Show the transfers without pruning them."
        ),
    ] = False
    expect: Annotated[
        int | None,
        typer.Option(
            "--expect",
            metavar="N",
            min=0,
            help="Proceed only if exactly N transfers are selected, as counted by --dry-run.",
        ),
    ] = None
    as_json: options.Json = False
    state_dir: options.StateDir = None


def prune(which: Pruning, wanted: TransferFilters) -> int:
    """Remove object rows of old transfers from the database.

    Receipts are kept: report, audit and verify still work.
    """
    count = objects = 0
    with open_session(as_json=which.as_json, state_dir=which.state_dir, reads=which.dry_run) as session:
        found = session.service.prune(
            older_than=which.older_than,
            actor=actor(),
            wanted=wanted.filter,
            expected=which.expect,
            dry_run=which.dry_run,
        )
        for one in found:
            count, objects = count + 1, objects + one.objects
            ended = text.timestamp(one.ended_at)
            if which.as_json:
                display.emit(
                    "pruned",
                    id=one.id,
                    ended_at=ended,
                    objects=one.objects,
                    archived_bytes=one.archived_bytes,
                    dry_run=which.dry_run,
                )
            else:
                print(f"{one.id}  ended {ended}  {text.count(one.objects, 'object')}")
    if not which.as_json:
        verb = "Would prune" if which.dry_run else "Pruned"
        display.say(f"{verb} {text.count(count, 'transfer')} with {text.count(objects, 'object')}; receipts stay.")
    return exits.OK
