"""The entry of ``seqferry s5cmd`` in ``--help``."""

from __future__ import annotations

import typer


def s5cmd(context: typer.Context) -> int:
    """Run `s5cmd cp` or `s5cmd ls` of a Nextflow task with Seqferry."""
    from seqferry.nextflow import shim

    return shim.run("s5cmd", context.args)
