"""The entry of ``seqferry aws`` in ``--help``."""

from __future__ import annotations

import typer


def aws(context: typer.Context) -> int:
    """Run `aws s3 cp` or `aws s3 ls` of a Nextflow task with Seqferry."""
    from seqferry.nextflow import shim

    return shim.run("aws", context.args)
