"""The entry of ``seqferry aws`` in ``--help``."""

from __future__ import annotations

import typer


def aws(context: typer.Context) -> int:
    """`aws s3 cp` and `aws s3 ls` as Nextflow's task wrappers call them, through Seqferry's engine."""
    from seqferry.nextflow import shim

    return shim.run("aws", context.args)
