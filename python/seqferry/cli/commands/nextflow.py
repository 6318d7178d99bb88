"""``seqferry nextflow``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits

nextflow = typer.Typer(help="Commands for Nextflow pipelines (docs/use/nextflow.md).", no_args_is_help=True)


@nextflow.callback()
def _group() -> None:
    """Commands for Nextflow pipelines."""


@nextflow.command("install-cli")
def install_cli(
    prefix: Annotated[Path, typer.Argument(metavar="PREFIX", help="A folder of its own, made if it is not there.")],
) -> int:
    """Make PREFIX/bin/aws (and s5cmd), self-contained: mounted into task containers, it needs only /bin/sh there."""
    from seqferry.engine.engine import version
    from seqferry.model.formatting import size
    from seqferry.nextflow import bundle

    made = bundle.install(prefix, version())
    print(f"{made.commands[0]} ({size(made.bytes)})")
    return exits.OK


@nextflow.command("helper")
def helper() -> int:
    """The helper of the plugin nf-seqferry: requests as lines of JSON on standard input, answers on standard output."""
    from seqferry.nextflow.helper import run

    return run()
