"""Figures of a transfer while it runs, as text and as raw numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from seqferry.cli.output import text
from seqferry.model.models import Status, Totals
from seqferry.model.progress import eta


def percent(totals: Totals) -> int | None:
    """Per cent of the bytes found so far; 100 only when nothing is missing. None when nothing was found yet."""
    if totals.bytes == 0:
        return None
    return min(int(totals.bytes_done * 100 / totals.bytes), 100)


def progress_line(status: Status) -> str:
    """``running: 34 of 60 objects, 521.3 MiB of 1.0 GiB (52 %), 118.0 MiB/s, ETA 4.1 s, 2 failed``."""
    totals, live = status.totals, status.live
    more = "" if status.planned else "+"
    parts = [
        f"{totals.ended:,} of {totals.objects:,}{more} objects",
        f"{text.size(totals.bytes_done)} of {text.size(totals.bytes)}{more}",
    ]
    share = percent(totals)
    if share is not None:
        parts[-1] += f" ({share} %)"
    if live.bytes_per_second > 0:
        parts.append(text.rate(live.bytes_per_second))
    remaining = eta(status)
    if remaining is not None:
        parts.append(f"ETA {text.duration(remaining)}")
    parts += format_problems(status)
    waits = "" if status.waits_for is None else f", waits for {text.printable(status.waits_for)}"
    return f"{text.state_name(status.state)}{waits}: " + ", ".join(parts)


def format_problems(status: Status) -> list[str]:
    """Counts of failures, throttled requests and retries as text, worst first; empty nearly always."""
    totals, live = status.totals, status.live
    parts: list[str] = []
    if totals.failed:
        parts.append(f"{totals.failed:,} failed")
    if live.throttled:
        parts.append(f"{live.throttled:,} throttled")
    if live.retries:
        parts.append("1 retry" if live.retries == 1 else f"{live.retries:,} retries")
    return parts


def progress_facts(status: Status) -> dict[str, Any]:
    """A status as raw numbers: bytes, bytes per second, seconds."""
    totals, live = status.totals, status.live
    return {
        "id": status.id,
        "state": status.state,
        "waits_for": status.waits_for,
        "planned": status.planned,
        **totals.facts(),
        "bytes_per_second": round(live.bytes_per_second),
        "eta_seconds": None if (remaining := eta(status)) is None else round(remaining, 1),
        "workers": live.workers,
        "requests_in_flight": live.in_flight,
        "requests": live.requests,
        "retries": live.retries,
        "throttled": live.throttled,
        "slowest": [asdict(active) for active in live.slowest],
    }
