"""``seqferry workers``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.workers import ProcessStatus
from seqferry.settings.config import Settings


def workers(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """List the processes that work, and those that were killed within the last week."""
    from seqferry.service.service import Service

    with Service.open(Settings.load(state_dir=state_dir)) as service:
        found = service.workers()
    if as_json:
        for one in found:
            display.emit("worker", **worker_facts(one))
        return exits.OK
    if not found:
        display.say("No worker runs. Start one with: seqferry worker")
        return exits.OK
    rows = [("WORKER", "KIND", "STATE", "VERSION", "SINCE", "LAST SEEN", "TRANSFERS", "IN FLIGHT", "MEMORY")]
    rows += [_row(one) for one in found]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return exits.OK


def _row(one: ProcessStatus) -> tuple[str, ...]:
    process, activity = one.process, one.activity
    return (
        text.printable(process.name),
        process.kind,
        "alive" if one.alive else "silent",
        process.version,
        text.timestamp(one.since),
        text.timestamp(one.seen_at),
        str(activity.transfers),
        str(activity.in_flight),
        "-" if activity.resident is None else text.size(activity.resident),
    )


def worker_facts(one: ProcessStatus) -> dict[str, Any]:
    """The ``worker`` event."""
    process, activity = one.process, one.activity
    return {
        **asdict(process),
        "name": process.name,
        "alive": one.alive,
        "since": text.timestamp(one.since, milliseconds=True),
        "seen_at": text.timestamp(one.seen_at, milliseconds=True),
        "lanes": list(activity.lanes),
        "limits": None if activity.limits is None else asdict(activity.limits),
        "resident_bytes": activity.resident,
        "transfers": activity.transfers,
        "requests_in_flight": activity.in_flight,
        "windows": [asdict(window) for window in activity.windows],
        "facts": activity.facts,
    }
