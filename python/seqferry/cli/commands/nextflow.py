"""``seqferry nextflow``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits
from seqferry.model.formatting import printable

nextflow = typer.Typer(help="Install the Nextflow integration. See docs/use/nextflow.md.", no_args_is_help=True)


@nextflow.callback()
def _group() -> None: ...


@nextflow.command("install-cli")
def install_cli(
    prefix: Annotated[
        Path, typer.Argument(metavar="PREFIX", help="Folder to install into. It is created if it does not exist.")
    ],
) -> int:
    """Install PREFIX/bin/aws and s5cmd for task containers. They need only /bin/sh."""
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
            help="Plugin folder of Nextflow. Default: $NXF_HOME/plugins, else ~/.nextflow/plugins.",
        ),
    ] = None,
) -> int:
    """Install the plugin nf-seqferry, which handles s3:// paths."""
    from seqferry.engine.engine import version
    from seqferry.nextflow import plugin

    made = plugin.install(folder or plugin.default_folder(os.environ), version())
    print(f"{printable(str(made))}\nnextflow.config: plugins {{ id '{plugin.NAME}@{version()}' }}")
    return exits.OK


@nextflow.command("helper")
def helper() -> int:
    """Serve requests of the plugin nf-seqferry on standard input."""
    from seqferry.nextflow.helper import run

    return run()
