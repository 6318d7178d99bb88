"""``seqferry notify``: lists and tests the channels of notices."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError
from seqferry.settings.config import Settings

notify = typer.Typer(help="List and test notification channels.", rich_markup_mode=None)


@notify.callback()
def _group() -> None: ...


@notify.command("test")
def check(
    channel: Annotated[str | None, typer.Argument(metavar="[CHANNEL]", help="Only this channel.")] = None,
    as_json: options.Json = False,
) -> int:
    """Send a test notification to each configured channel."""
    from seqferry.service import notices

    found = Settings.load().notices.channels
    wanted = [one for one in found if channel in (None, one.name)]
    if not wanted:
        named = f"the channel '{channel}'" if channel else "a channel"
        raise UsageError(f"The configuration file does not name {named}; write a table [notices.NAME].")
    failed = False
    for one in wanted:
        delivery = notices.send(one, notices.test_notice(f"test.{one.name}.{int(time.time())}"))
        failed = failed or delivery.error is not None
        if as_json:
            display.emit("notice", channel=one.name, to=one.shown, error_message=delivery.error)
        else:
            outcome = "sent" if delivery.error is None else f"failed: {text.printable(delivery.error)}"
            print(f"{one.name}\t{one.shown}\t{outcome}")
    return exits.FAILED if failed else exits.OK


@notify.command("list")
def list_(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """List channels and undelivered notifications. URLs are not printed, because they contain secrets."""
    from seqferry.service.service import Service

    settings = Settings.load(state_dir=state_dir)
    for one in settings.notices.channels:
        if as_json:
            display.emit("channel", channel=one.name, to=one.shown, events=list(one.events))
        else:
            print(f"{one.name}\t{one.shown}\t{', '.join(one.events)}")
    with Service.open(settings) as service:
        left = service.undelivered_notices()
    for row in left:
        if as_json:
            display.emit(
                "undelivered", id=row.subject_id, subject=row.subject_kind, kind=row.kind, channel=row.channel,
                state=row.state, attempts=row.attempts, error_message=row.error,
            )  # fmt: skip
        else:
            what = f"{row.kind} of {row.subject_kind} {row.subject_id} to {row.channel}"
            what += f": {row.state} after {text.count(row.attempts, 'attempt')}"
            display.say(f"{what}: {text.printable(row.error or 'no attempt yet')}")
    return exits.OK
