"""The entry of ``seqferry s5cmd`` in ``--help``."""

from __future__ import annotations

import typer


def s5cmd(context: typer.Context) -> int:
    """`s5cmd cp` and `s5cmd ls` as Nextflow's task wrappers call them, through Seqferry's engine."""
    from seqferry.nextflow import shim

    return shim.run("s5cmd", context.args)
