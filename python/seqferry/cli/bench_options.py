"""Groups of options that the benches share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from seqferry.cli import options
from seqferry.model.frozen import frozen


@frozen
class Repetitions:
    """Options for the number of runs."""

    PANEL: ClassVar = "Options"

    warm_up: Annotated[
        int,
        typer.Option("--warm-up", metavar="N", help="Warm-up runs of each method, not counted."),
    ] = 1
    repetitions: Annotated[
        int,
        typer.Option("--repetitions", metavar="N", help="Measured runs of each method."),
    ] = 3


@frozen
class WorkFolder:
    """Option for the folder on the disk that is measured."""

    PANEL: ClassVar = "Options"

    work_folder: Annotated[
        Path | None,
        typer.Option(
            "--work-folder",
            metavar="DIR",
            help="Folder for test files, on the disk to measure. Default: the temporary folder.",
        ),
    ] = None


@frozen
class ReportFolder:
    """Option for the folder of the report."""

    PANEL: ClassVar = "Options"

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Folder for the report (JSON, HTML, charts). Default: a new folder seqferry-bench-ID here.",
        ),
    ] = None


@frozen
class Preview:
    """Option to see what would be run."""

    PANEL: ClassVar = "Options"

    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            "--dryrun",
            envvar="SEQFERRY_DRY_RUN",
            help="Show the planned runs and their traffic without running them.",
        ),
    ] = False


@frozen
class BenchOutput:
    """Options for the printed output."""

    PANEL: ClassVar = "Output"

    as_json: options.Json = False
    quiet: options.Quiet = False
