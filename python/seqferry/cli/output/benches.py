"""Progress and tables of benches."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from seqferry.cli.output import display, text

_PLAIN_WIDTH: Final = 200
"""Width of tables in characters: the least at a terminal, and the one without a terminal."""


class Progress:
    """Progress, on stderr; with ``--json`` each run as an event on stdout."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self._quiet = quiet

    def say(self, line: str) -> None:
        if not self._quiet:
            display.say(text.printable(line))

    def say_written(self, missing: str | None, files: Sequence[Path]) -> None:
        """Name the files that were written, and what could not be drawn."""
        for line in (missing, *(f"wrote {text.printable(str(path))}" for path in files)):
            if line is not None:
                self.say(line)


def print_tables(
    tables: Iterable[tuple[str, Sequence[str], Sequence[Sequence[str]]]], lines: Iterable[str] = ()
) -> None:
    """Titles, heads and rows, and the lines below them, on stdout."""
    from rich.console import Console

    # Lines that are too long for a terminal are broken by it: rather that than names and figures cut short.
    width = max(_PLAIN_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    for title, head, rows in tables:
        console.print(title, style="bold", soft_wrap=True)
        console.print(_table(head, rows))
        console.print()
    for line in lines:
        console.print(text.printable(line), soft_wrap=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table

    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for index, name in enumerate(head):
        made.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(text.printable(cell) for cell in row))
    return made
