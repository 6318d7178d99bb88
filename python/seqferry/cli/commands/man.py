"""``seqferry man``: manual pages (roff) made of what ``--help`` shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from seqferry.cli import command_tree, examples, exits, help_text
from seqferry.cli.output import display
from seqferry.model.errors import ConfigError, UsageError


def man(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="Command, as cp or tar ls. Default: seqferry itself."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", envvar="SEQFERRY_MAN_DIR", help="Write the manual pages of all commands to DIR."),
    ] = None,
) -> int:
    """Print a manual page, or write all manual pages to a folder."""
    root = command_tree.build_tree()
    pages = {(): root, **dict(command_tree.walk_commands(root))}
    if directory is None:
        asked = tuple(command or ())
        if asked not in pages:
            raise UsageError(f"There is no command '{' '.join(asked)}'. See all with: seqferry --help")
        print(format_page(pages[asked], asked), end="")
        return exits.OK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, found in pages.items():
            (directory / f"{'-'.join(('seqferry', *path))}.1").write_text(format_page(found, path))
    except OSError as why:
        raise ConfigError(f"Cannot write manual pages to {directory}: {why.strerror or why}.") from None
    display.say(f"{len(pages)} manual pages are in {directory}.")
    return exits.OK


def format_page(command: Any, path: tuple[str, ...]) -> str:
    """The manual page of a command."""
    return "\n".join(_lines(command, path)) + "\n"


def _lines(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    name = "-".join(("seqferry", *path))
    text = _plain(command.help or "").split("\n\n")
    yield f'.TH {_escape(name.upper())} 1 "" "Seqferry"'
    yield from (".SH NAME", f"{_escape(name)} \\- {_escape(text[0].rstrip('.'))}")
    yield from (".SH SYNOPSIS", f".B {_escape(' '.join(('seqferry', *path)))}", _escape(help_text.usage(command)))
    yield ".SH DESCRIPTION"
    for paragraph in text:
        yield from (".PP", _escape(paragraph))
    for panel, records in help_text.panels(command).items():
        yield f".SH {_escape(panel.upper())}"
        for words, what in records:
            yield from (".TP", f".B {_escape(words)}", _escape(_plain(what)))
    if subcommands := [
        (sub, found) for sub, found in command_tree.walk_commands(command, path) if len(sub) == len(path) + 1
    ]:
        yield ".SH COMMANDS"
        for sub, found in subcommands:
            first = _plain(found.help or "").split("\n\n")[0]
            yield from (".TP", f".BR {'-'.join(('seqferry', *sub))} (1)", _escape(first))
    if shown := examples.find_examples(" ".join(path)):
        yield ".SH EXAMPLES"
        for line, what in shown:
            yield from (".PP", _escape(f"{what[:1].upper()}{what[1:]}:"), ".RS 4", ".nf", _escape(line), ".fi", ".RE")
    yield ".SH EXIT STATUS"
    for code, _, meaning in exits.TABLE:
        yield from (".TP", f".B {code}", _escape(meaning))
    yield from (".SH SEE ALSO", ".BR seqferry (1)")


def _plain(text: str) -> str:
    """Paragraphs of one line each."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def _escape(text: str) -> str:
    """Text that roff prints as it is."""
    found = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{found}" if found[:1] in (".", "'") else found
