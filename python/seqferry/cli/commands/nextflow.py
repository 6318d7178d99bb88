"""``seqferry nextflow``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits
from seqferry.model.formatting import printable

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


@nextflow.command("install-plugin")
def install_plugin(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--plugins-dir",
            envvar="NXF_PLUGINS_DIR",
            metavar="DIR",
            help="Where Nextflow looks for plugins. Default: $NXF_HOME/plugins, else ~/.nextflow/plugins.",
        ),
    ] = None,
) -> int:
    """Install the plugin nf-seqferry, which this package brings along: s3:// paths without Java tools or Maven."""
    from seqferry.engine.engine import version
    from seqferry.nextflow import plugin

    made = plugin.install(folder or plugin.default_folder(os.environ), version())
    print(f"{printable(str(made))}\nnextflow.config: plugins {{ id '{plugin.NAME}@{version()}' }}")
    return exits.OK


@nextflow.command("helper")
def helper() -> int:
    """The helper of the plugin nf-seqferry: requests as lines of JSON on standard input, answers on standard output."""
    from seqferry.nextflow.helper import run

    return run()
