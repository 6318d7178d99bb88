"""The display for terminals: a bar, the figures that matter, and the slowest objects in flight.

Everything that came from outside is put in as ``Text`` after ``printable``: neither rich's markup nor a terminal
escape in a key is ever interpreted. It writes to stderr, and rich honours NO_COLOR.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seqferry.cli.output import progress_text, text
from seqferry.model.models import ActiveObject, Status
from seqferry.model.progress import eta

_REFRESHES_PER_SECOND: Final = 8
_IDLE: Final = 5.0
"""Seconds without a sign of a worker before that is said: between two batches there is none for a moment."""
_WIDEST: Final = 110
"""Columns: a wider line is hard to read (taste)."""


class LiveDisplay:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(
            console=self._console, refresh_per_second=_REFRESHES_PER_SECOND, transient=True, redirect_stdout=False
        )
        self._started = False
        self._worker_seen = time.monotonic()

    @property
    def usable(self) -> bool:
        """The terminal can move its cursor."""
        return not self._console.is_dumb_terminal

    def show_submission(self, transfer_id: str) -> None:
        self._print(Text(f"transfer {transfer_id}", style="dim"))

    def note(self, message: str) -> None:
        self._print(Text(message))

    def preflight(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del facts
        for line in lines:
            self._print(Text(line))

    def waiting(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del facts
        for line in lines:
            self._print(Text(line))

    def update(self, status: Status) -> None:
        if not self._started:
            self._live.start()
            self._started = True
        now = time.monotonic()
        if status.live.workers or status.state in {"queued", "planning"}:
            self._worker_seen = now
        idle = now - self._worker_seen > _IDLE
        self._live.update(render(status, min(self._console.width, _WIDEST), idle=idle))

    def close(self) -> None:
        if self._started:
            self._started = False
            # Transient: the summary takes its place.
            self._live.stop()

    def _print(self, message: Text) -> None:
        self._console.print(message, soft_wrap=True)


def render(status: Status, width: int, *, idle: bool = False) -> RenderableType:
    """Live view of a transfer, at most ``width`` cells wide; ``idle``: no worker has been at it for a while."""
    lines: list[RenderableType] = [_headline(status, width), _bar(status, width), _figures(status, idle=idle)]
    if status.live.slowest and not status.ended:
        lines.append(_slowest(status.live.slowest, width))
    return Group(*lines)


def _headline(status: Status, width: int) -> Text:
    route_width = max((width - len(status.state) - 6) // 2, 8)
    return Text.assemble(
        (status.state, "bold red" if status.state == "failed" else "bold"),
        "  ",
        (text.shorten(status.spec.source.uri, route_width), "cyan"),
        " → ",
        (text.shorten(status.spec.target.uri, route_width), "cyan"),
        no_wrap=True,
    )


def _bar(status: Status, width: int) -> RenderableType:
    totals = status.totals
    share = progress_text.percent(totals)
    more = "" if status.planned else "+"
    figure = "" if share is None else f"{share} %"
    label = f" {figure:>5}  {text.size(totals.bytes_done)} of {text.size(totals.bytes)}{more}"
    room = max(width - len(label), 10)
    if share is None and not status.planned:
        bar = ProgressBar(total=None, width=room, pulse=True, animation_time=time.monotonic())
    else:
        bar = ProgressBar(
            total=max(totals.bytes, 1),
            completed=min(totals.bytes_done, totals.bytes) if totals.bytes else 1,
            width=room,
            complete_style="cyan" if not totals.failed else "yellow",
            finished_style="green" if not totals.failed else "yellow",
        )
    row = Table.grid()
    row.add_column(width=room, no_wrap=True)
    row.add_column(no_wrap=True)
    row.add_row(bar, Text(label))
    return row


def _figures(status: Status, *, idle: bool) -> Text:
    """Figures of a transfer, the most important first: a narrow terminal cuts the end."""
    totals, live = status.totals, status.live
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{totals.ended:,} of {totals.objects:,}{'' if status.planned else '+'} objects")
    if not status.planned:
        line.append(" (still listing)", style="dim")
    if live.bytes_per_second > 0:
        line.append(f"  {text.rate(live.bytes_per_second)}", style="bold")
    remaining = eta(status)
    if remaining is not None and not status.ended:
        line.append(f"  ETA {text.duration(remaining)}")
    for part in progress_text.format_problems(status):
        line.append(f"  {part}", style="bold red" if part.endswith("failed") else "yellow")
    if status.state == "queued":
        line.append("  waiting for a worker", style="dim")
    elif idle and not status.ended:
        line.append("  no worker at it", style="yellow")
    if live.in_flight:
        line.append(f"  {live.in_flight:,} in flight", style="dim")
    if totals.skipped:
        line.append(f"  {totals.skipped:,} already there", style="dim")
    return line


def _slowest(active: tuple[ActiveObject, ...], width: int) -> RenderableType:
    name_width = max(width - 34, 12)
    table = Table.grid(padding=(0, 2))
    table.add_column(width=name_width, no_wrap=True)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True)
    for item in active:
        done = "" if item.size == 0 else f"{min(int(item.bytes_done * 100 / item.size), 100)} %"
        table.add_row(
            Text("  " + text.shorten(item.key, name_width - 2), style="dim"),
            Text(text.size(item.size), style="dim"),
            Text(done, style="dim"),
            Text(text.duration(item.seconds), style="dim"),
        )
    return table
