"""``seqferry umount``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits
from seqferry.cli.mount_process import resolve_path
from seqferry.engine.mounts import (
    unmount,
)

_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Mounted folder.")]


def umount(
    directory: _Directory,
    force: Annotated[bool, typer.Option("--force", help="Unmount a folder that is in use.")] = False,
) -> int:
    """Unmount a folder. Its process may have died."""
    unmount(resolve_path(directory), force=force)
    return exits.OK
