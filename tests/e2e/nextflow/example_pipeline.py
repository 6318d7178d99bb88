"""The example pipeline, the data that tests give it, and the table that it makes of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from support.processes import seqferry
from support.run import ROOT
from support.servers import S3Server

EXAMPLE: Final = ROOT / "examples" / "nextflow"
SAMPLES: Final = 3
REFERENCES: Final = 60
EXPECTED: Final = [
    [f"sample{sample}_R{mate}.fastq.gz", str(200 + sample), str(75 * (200 + sample)), str(REFERENCES)]
    for sample in range(SAMPLES)
    for mate in (1, 2)
]


def upload(server: S3Server, folder: Path, target: str) -> None:
    command = [seqferry(), "aws", "s3", "cp", "--only-show-errors", "--recursive", folder, target]
    subprocess.run(command, check=True, env={**os.environ, **server.environment()}, timeout=60)


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def published(results: Path) -> list[list[str]]:
    """The table in a folder of results."""
    return rows((results / "table" / "all samples.tsv").read_text())
