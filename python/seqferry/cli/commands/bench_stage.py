"""``seqferry bench stage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from seqferry.cli import exits
from seqferry.cli.bench_options import BenchOutput, Preview, Repetitions, ReportFolder, WorkFolder
from seqferry.cli.output import display, text
from seqferry.cli.output.benches import Progress, print_tables
from seqferry.model.frozen import frozen
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from seqferry.bench.stage.comparison import StageOutcome, StageRun


@frozen
class StagedData:
    """Data that is staged."""

    PANEL: ClassVar = "Arguments"

    source: Annotated[
        str, typer.Argument(metavar="S3_URI", help="s3://bucket/prefix/: input data of a task. It is only read.")
    ]


@frozen
class BenchStage:
    """Options for the ways to stage."""

    PANEL: ClassVar = "Options"

    ways: Annotated[
        list[str] | None,
        typer.Option(
            "--ways",
            metavar="NAMES",
            help="Methods to run: aws-recursive, s5cmd, seqferry, aws-tar, seqferry-tar, aws-pipe, "
            "seqferry-pipe, unpack, mount-cp, mount-tar, mount-read, nextflow, nextflow-tar, "
            "nextflow-pipe, nextflow-seqferry, nextflow-unpack. Default: all that are available here.",
        ),
    ] = None
    read: Annotated[
        float,
        typer.Option(
            "--read",
            metavar="PERCENT",
            help="Percentage of the files that mount-read reads in place.",
        ),
    ] = 5.0
    tasks: Annotated[
        int,
        typer.Option(
            "--tasks",
            metavar="N",
            help="Number of tasks for which savings are estimated.",
        ),
    ] = 100
    scratch: Annotated[
        str | None,
        typer.Option(
            "--scratch",
            metavar="S3_URI",
            help="Prefix for a tar of the data. Default: the bucket of the data.",
        ),
    ] = None


def stage(
    source: StagedData,
    given: BenchStage,
    runs: Repetitions,
    work: WorkFolder,
    into: ReportFolder,
    preview: Preview,
    endpoint: OneEndpoint,
    shown: BenchOutput,
) -> int:
    """Compare methods of staging input data for a task.

    Measures recursive copies, one tar (copied, piped, unpacked), mounts and a Nextflow task on your own data.
    Reports medians, spread and the estimated savings.
    """
    from seqferry.bench import output as folder_of
    from seqferry.bench.stage import comparison, page, report
    from seqferry.bench.stage.staging_methods import NAMES

    names = [name.strip() for each in given.ways or () for name in each.split(",") if name.strip()]
    asked = comparison.StageParameters(
        tuple(dict.fromkeys(names)) or NAMES, given.read, given.tasks, runs.warm_up, runs.repetitions
    )
    plan = comparison.prepare(
        source.source,
        asked,
        scratch=given.scratch,
        endpoint_url=endpoint.endpoint_url,
        profile=endpoint.profile,
        region=endpoint.region,
    )
    show = _StageProgress(as_json=shown.as_json, quiet=shown.quiet)
    ways = text.count(len(plan.installed.ways), "way")
    show.say(f"{plan.data}, {text.size(plan.data.total)}: {ways}, {text.count(plan.runs, 'run')}")
    for line in plan.installed.left_out:
        show.say(line)
    if shown.as_json:
        left_out = list(plan.installed.left_out)
        display.emit("plan", runs=plan.runs, files=len(plan.data.files), bytes=plan.data.total, left_out=left_out)
    if preview.dry_run:
        return exits.OK
    folder = into.output or Path(plan.storage.place.prefix.rstrip("/").rpartition("/")[2])
    files: list[Path] = []
    missing = None
    with folder_of.output_folder(folder):
        outcome = comparison.run(plan, work_folder=work.work_folder, tell=show)
        result = report.document(plan, outcome)
        if outcome.runs:
            files, missing = folder_of.publish(result, folder, draw=page.draw, page=page.page, earlier=page.NAMES)
    if shown.as_json:
        display.emit("report", files=[str(path) for path in files], report=result)
    elif not shown.quiet:
        print_tables(report.tables(result), result["verdict"])
    show.say_written(missing, files)
    if outcome.left is not None:
        display.say(f"seqferry: {text.printable(outcome.left)}")
    if outcome.error is not None:
        raise outcome.error
    return _exit_code(outcome)


def _exit_code(outcome: StageOutcome) -> int:
    if outcome.interrupted:
        return exits.INTERRUPTED
    if any(run.mismatch for run in outcome.runs):
        return exits.MISMATCH
    failed = any(run.error is not None for run in outcome.runs)
    return exits.FAILED if failed or not outcome.runs or outcome.left else exits.OK


class _StageProgress(Progress):
    """The same, of runs of ways."""

    def ran(self, run: StageRun) -> None:
        if self.as_json:
            from seqferry.bench.stage.report import run_facts

            display.emit("run", **run_facts(run))
        what = f"{'warm-up' if run.round < 0 else f'round {run.round + 1}'}, {run.way}"
        if run.error is not None or run.cost is None:
            display.say(text.printable(f"  FAILED {what}: {run.error}"))
        else:
            self.say(f"  {what}: {run.cost.wall_s:.2f} s, {run.cost.cpu_s:.2f} s CPU, verified")
