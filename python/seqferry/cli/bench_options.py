"""Groups of options that the benches share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from seqferry.cli import options


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Options for the number of runs."""

    PANEL: ClassVar = "Options"

    warm_up: Annotated[
        int,
        typer.Option("--warm-up", envvar="SEQFERRY_BENCH_WARM_UP", metavar="N", help="Runs of each that do not count."),
    ] = 1
    repetitions: Annotated[
        int,
        typer.Option(
            "--repetitions", envvar="SEQFERRY_BENCH_REPETITIONS", metavar="N", help="Runs of each that count."
        ),
    ] = 3


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Option for the folder on the disk that is measured."""

    PANEL: ClassVar = "Options"

    work_folder: Annotated[
        Path | None,
        typer.Option(
            "--work-folder",
            envvar="SEQFERRY_BENCH_WORK_FOLDER",
            metavar="DIR",
            help="Where files lie meanwhile; the disk that matters to you. Default: the temporary folder.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """Option for the folder of the report."""

    PANEL: ClassVar = "Options"

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            envvar="SEQFERRY_BENCH_OUTPUT",
            metavar="DIR",
            help="Where the report goes: JSON, HTML and charts. Default: a new folder seqferry-bench-<id> here.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Preview:
    """Option to see what would be run."""

    PANEL: ClassVar = "Options"

    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Say what would be run and moved, and run nothing."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class BenchOutput:
    """Options for the printed output."""

    PANEL: ClassVar = "Output"

    as_json: options.Json = False
    quiet: options.Quiet = False
