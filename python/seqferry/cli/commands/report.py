"""``seqferry report``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from seqferry.cli import exits, options
from seqferry.cli.option_groups import Pricing
from seqferry.cli.output import display, text
from seqferry.cli.session import open_session
from seqferry.model.errors import ConfigError

_NAMED_AT_MOST: Final = 20


def report(
    transfer: options.TransferId,
    form: Annotated[
        Literal["json", "csv", "html"],
        typer.Option("--format", help="json (can be verified), csv or html."),
    ] = "json",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file. Default: standard output."),
    ] = None,
    page: Annotated[
        int,
        typer.Option(
            "--page",
            metavar="N",
            min=1,
            help="Page of the HTML report. Each has 10,000 objects.",
        ),
    ] = 1,
    price: options.Price = None,
    state_dir: options.StateDir = None,
) -> int:
    """Write the receipt of a transfer: origin, objects, checksums, digest.

    The record is checked first. If it was changed, the report says so and the exit code is 3.

    Example: seqferry report 3f2a --format html -o receipt.html
    """
    price = Pricing(price).check()
    with open_session(state_dir=state_dir, reads=True) as session:
        found = session.service.status(transfer)
        findings = session.service.record_findings(found.id)
        for one in findings[:_NAMED_AT_MOST]:
            display.say(f"record  {text.printable(one.message)}")
        if findings:
            display.say(f"The record was changed: {text.count(len(findings), 'finding')} (audit verify).")
        pieces = session.service.report(found.id, form, findings, price, page)
        if output is None:
            _print(pieces)
        else:
            _write(Path(output), pieces)
            display.say(f"Wrote {output}.")
        return exits.MISMATCH if findings else exits.OK


def _print(pieces: Iterator[str]) -> None:
    out = sys.stdout.buffer
    for piece in pieces:
        out.write(_encode(piece))
    out.flush()


def _encode(piece: str) -> bytes:
    # Halves of characters stand for bytes of file names that are no UTF-8.
    return piece.encode("utf-8", "backslashreplace")


def _write(path: Path, pieces: Iterator[str]) -> None:
    """Write the file whole or not at all, readable as other new files are."""
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(_encode(piece))
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
        temporary = None
    except OSError as why:
        raise ConfigError(f"Cannot write the report {path}: {why.strerror or why}.") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
