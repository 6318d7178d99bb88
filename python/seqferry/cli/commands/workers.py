"""``seqferry workers``."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError
from seqferry.model.workers import WAITING, ProcessStatus
from seqferry.settings import logs
from seqferry.settings.config import Settings

workers = typer.Typer(help="List and drain workers.", rich_markup_mode=None)

_LOOK_SECONDS: Final = 0.5


@workers.callback(invoke_without_command=True)
def list_workers(context: typer.Context, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """List workers, including those killed within the last week."""
    if context.invoked_subcommand is not None:
        return exits.OK
    from seqferry.service.service import Service

    with Service.open(Settings.load(state_dir=state_dir)) as service:
        found = service.workers()
        wanted = service.autoscale() if as_json else None
    if as_json:
        for one in found:
            display.emit("worker", **worker_facts(one))
        assert wanted is not None
        display.emit("autoscale", **asdict(wanted))
        return exits.OK
    if not found:
        display.say("No worker runs. Start one with: seqferry worker")
        return exits.OK
    rows = [("WORKER", "KIND", "STATE", "VERSION", "SINCE", "LAST SEEN", "TRANSFERS", "IN FLIGHT", "MEMORY")]
    rows += [_row(one) for one in found]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for one in found:
        for line in _waiting(one):
            print(text.printable(line))
    return exits.OK


@workers.command()
def drain(
    name: Annotated[str, typer.Argument(metavar="WORKER", help="Name in the list, or its beginning.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the worker has ended.")] = False,
    state_dir: options.StateDir = None,
) -> int:
    """Stop a worker after its current batches. Other workers continue its transfers."""
    from seqferry.service import workers as orders
    from seqferry.service.service import Service

    with Service.open(Settings.load(state_dir=state_dir)) as service:
        found = orders.drain(service, name)
        display.say(f"{found.process.name} accepts no new work and ends after its current batches.")
        while wait and orders.is_running(service, found.process.id):
            time.sleep(_LOOK_SECONDS)
    return exits.OK


@workers.command()
def scale(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="Starts or stops a worker; {action} and {slot} are replaced in it."),
    ],
    calm: Annotated[
        float,
        typer.Option("--calm", min=0, metavar="SECONDS", help="Time for which fewer workers must have been enough."),
    ] = 300.0,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="Time between two checks.")
    ] = 15.0,
    log_format: options.LogFormat = None,
    state_dir: options.StateDir = None,
) -> int:
    """Start and drain workers by a command, as many as the work needs, until Ctrl-C."""
    from seqferry.service import scaling
    from seqferry.service.service import Service

    settings = Settings.load(state_dir=state_dir, log_format=log_format)
    if settings.database_url is None:
        raise UsageError("Several workers need PostgreSQL; give its address in SEQFERRY_DATABASE_URL.")
    logs.to_stderr(settings.log_format)
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with Service.open(settings) as service:
        service.record_autoscale_limits()
        scaling.run(scaling.WorkerScaler(service, command, calm=calm), interval, stopped.wait)
    return exits.OK


def _row(one: ProcessStatus) -> tuple[str, ...]:
    process, activity = one.process, one.activity
    return (
        text.printable(process.name),
        process.kind,
        one.state,
        process.version,
        text.timestamp(one.since),
        text.timestamp(one.seen_at),
        str(activity.transfers),
        str(activity.in_flight),
        "-" if activity.resident is None else text.size(activity.resident),
    )


def _waiting(one: ProcessStatus) -> Iterator[str]:
    """Lines on files of the shares of a gateway that are not in the bucket, for which the table has no room."""
    for share, waits in one.activity.facts.get(WAITING, {}).items():
        if not waits["dirty_files"] and not waits["failing_files"] and not waits["conflicts"]:
            continue
        parts = [f"{text.count(waits['dirty_files'], 'file')} to upload, {text.size(waits['dirty_bytes'])}"]
        if waits["oldest_dirty_seconds"] is not None:
            parts.append(f"the oldest for {text.duration(waits['oldest_dirty_seconds'])}")
        if waits["failing_files"]:
            parts.append(f"{waits['failing_files']} failing")
        if waits["conflicts"]:
            parts.append(text.count(waits["conflicts"], "conflict"))
        yield f"{one.process.name} /{share}: {', '.join(parts)}"


def worker_facts(one: ProcessStatus) -> dict[str, Any]:
    """The ``worker`` event."""
    process, activity = one.process, one.activity
    return {
        **asdict(process),
        "name": process.name,
        "alive": one.alive,
        "draining": one.draining,
        "gone": one.gone,
        "since": text.timestamp(one.since, milliseconds=True),
        "seen_at": text.timestamp(one.seen_at, milliseconds=True),
        "lanes": list(activity.lanes),
        "limits": None if activity.limits is None else asdict(activity.limits),
        "resident_bytes": activity.resident,
        "transfers": activity.transfers,
        "requests_in_flight": activity.in_flight,
        "windows": [asdict(window) for window in activity.windows],
        "facts": activity.listed_facts,
    }
