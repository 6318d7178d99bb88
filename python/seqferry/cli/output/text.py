"""Values as text for a person: names that cannot harm a terminal, times; amounts as everywhere.

Object keys are data from elsewhere: they may hold newlines, terminal escapes or direction marks. All that prints a key
goes through ``printable``.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime

from seqferry.model.formatting import count, duration, printable, rate, size

__all__ = [
    "count",
    "duration",
    "escape_unencodable_output",
    "optional_timestamp",
    "printable",
    "rate",
    "shorten",
    "size",
    "state_name",
    "timestamp",
]


def escape_unencodable_output() -> None:
    """Let stdout and stderr print any character: as an escape where their encoding lacks it, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def state_name(state: str) -> str:
    """A state for a person: ``done with failures``."""
    return state.replace("_", " ")


def shorten(text: str, width: int) -> str:
    """``text`` made printable and cut in the middle to at most ``width`` terminal cells."""
    from rich.cells import cell_len

    safe = printable(text)
    if cell_len(safe) <= width:
        return safe
    if width <= 1:
        return "…"[:width]
    # The end of a name (lane, read, extension) tells more than its start: it gets the larger half.
    head_width = (width - 1) // 2
    tail_width = width - 1 - head_width
    return _fitting(safe, head_width) + "…" + _fitting(safe[::-1], tail_width)[::-1]


def _fitting(text: str, width: int) -> str:
    from rich.cells import cell_len

    used = 0
    for index, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:index]
    return text


def timestamp(epoch: float, *, milliseconds: bool = False) -> str:
    """RFC 3339 in UTC."""
    moment = datetime.fromtimestamp(epoch, UTC)
    return moment.isoformat(timespec="milliseconds" if milliseconds else "seconds").replace("+00:00", "Z")


def optional_timestamp(epoch: float | None) -> str | None:
    """RFC 3339 in UTC with milliseconds, for JSON."""
    return None if epoch is None else timestamp(epoch, milliseconds=True)
