"""The tree of commands, walked: for completion and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer


def build_tree() -> Any:
    """The whole command line, as Typer's own object."""
    from seqferry.cli.app import application

    return typer.main.get_command(application([]))


def walk_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command below this one with its words (``("tar", "ls")``), groups before their commands."""
    for name, found in getattr(command, "commands", {}).items():
        if not found.hidden:
            yield (*path, name), found
            yield from walk_commands(found, (*path, name))


def help_context(command: Any, path: tuple[str, ...], width: int = 100) -> Any:
    """Context that Typer needs to print the help of a command."""
    name = " ".join(("seqferry", *path))
    return typer.Context(command, info_name=name, max_content_width=width, terminal_width=width)
