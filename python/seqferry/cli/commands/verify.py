"""``seqferry verify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.cli.session import actor, open_session


def verify(
    transfer: options.TransferId,
    content: Annotated[
        bool,
        typer.Option(
            "--content",
            envvar="SEQFERRY_VERIFY_CONTENT",
            help="Read all bytes, and compare them with the checksums that are on record.",
        ),
    ] = False,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Look at the target again, today, and compare each object with its receipt. Exit code 3 when one differs.

    Seals and events are looked at first: a receipt that is not as it was written is named, and the exit code is 3.

    Examples: seqferry verify 3f2a; seqferry verify 3f2a --content
    """
    with open_session(as_json=as_json, state_dir=state_dir) as session:
        service = session.service
        status = service.status(transfer)
        look = service.look_at_target(status, actor=actor(), content=content)
        looked, findings = look.counts, look.record
        for one in findings:
            if as_json:
                display.emit("finding", **asdict(one))
            else:
                print(f"record\t{text.printable(one.message)}")
        for one in look.differences:
            if as_json:
                display.emit("difference", id=status.id, **asdict(one))
            else:
                print(f"{one.outcome}\t{text.printable(one.key)}\twas {one.recorded}\tis {one.found}")
        code = exits.MISMATCH if looked.differ or findings else exits.OK if looked.objects else exits.NOTHING
        if as_json:
            display.emit("verified", id=status.id, record_findings=len(findings), **asdict(looked), exit_code=code)
        else:
            display.say(
                f"Looked at {text.count(looked.objects, 'object')} at {text.printable(status.spec.target.uri)}: "
                f"{looked.same:,} as received, {looked.changed:,} changed, {looked.missing:,} missing"
                f"{f', {looked.unreadable:,} unreadable' if looked.unreadable else ''}."
            )
            if findings:
                display.say(
                    f"  record    {text.count(len(findings), 'finding')}: the receipt itself is not as it was written "
                    "(audit verify)"
                )
            if content:
                display.say(f"  content   {text.count(looked.content, 'object')} read, with the digest on record")
                if unread := looked.same - looked.content:
                    display.say(f"  note      {text.count(unread, 'object')} not read: no digest of them is on record")
            if looked.size_only:
                display.say(f"  note      {text.count(looked.size_only, 'object')} compared by size only")
        return code
