"""``seqferry nextflow``, and the entries of ``seqferry aws`` and ``seqferry s5cmd`` in ``--help``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits

nextflow = typer.Typer(help="Commands for Nextflow pipelines (docs/nextflow.md).", no_args_is_help=True)


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


def aws(context: typer.Context) -> int:
    """`aws s3 cp` and `aws s3 ls` as Nextflow's task wrappers call them, through Seqferry's engine."""
    from seqferry.nextflow import shim

    return shim.run("aws", context.args)


def s5cmd(context: typer.Context) -> int:
    """`s5cmd cp` and `s5cmd ls` as Nextflow's task wrappers call them, through Seqferry's engine."""
    from seqferry.nextflow import shim

    return shim.run("s5cmd", context.args)
