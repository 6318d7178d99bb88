"""``seqferry bench stage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text

if TYPE_CHECKING:
    from seqferry.bench.stage.comparison import StageOutcome, StageRun


def stage(
    source: Annotated[
        str, typer.Argument(metavar="S3_URI", help="s3://bucket/prefix/: the input of a task. It is only read.")
    ],
    ways: Annotated[
        list[str] | None,
        typer.Option(
            "--ways",
            envvar="SEQFERRY_BENCH_WAYS",
            metavar="NAMES",
            help="Only these: aws-recursive, s5cmd, seqferry, aws-tar, seqferry-tar, aws-pipe, seqferry-pipe, unpack, "
            "mount-cp, mount-tar, mount-read. Default: all that this machine can go.",
        ),
    ] = None,
    read: Annotated[
        float,
        typer.Option(
            "--read",
            envvar="SEQFERRY_BENCH_READ",
            metavar="PERCENT",
            help="Percent of the files that are read in place.",
        ),
    ] = 5.0,
    tasks: Annotated[
        int,
        typer.Option(
            "--tasks", envvar="SEQFERRY_BENCH_TASKS", metavar="N", help="Tasks that the savings are told for."
        ),
    ] = 100,
    scratch: Annotated[
        str | None,
        typer.Option(
            "--scratch",
            envvar="SEQFERRY_BENCH_SCRATCH",
            metavar="S3_URI",
            help="Where one tar of the data is written, below a fresh prefix. Default: the bucket of the data.",
        ),
    ] = None,
    warm_up: Annotated[
        int,
        typer.Option("--warm-up", envvar="SEQFERRY_BENCH_WARM_UP", metavar="N", help="Runs of each that do not count."),
    ] = 1,
    repetitions: Annotated[
        int,
        typer.Option(
            "--repetitions", envvar="SEQFERRY_BENCH_REPETITIONS", metavar="N", help="Runs of each that count."
        ),
    ] = 3,
    work_folder: Annotated[
        Path | None,
        typer.Option(
            "--work-folder",
            envvar="SEQFERRY_BENCH_WORK_FOLDER",
            metavar="DIR",
            help="Where the data is staged; the disk of your tasks. Default: the temporary folder.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            envvar="SEQFERRY_BENCH_OUTPUT",
            metavar="DIR",
            help="Where the report goes: JSON, HTML and a plot. Default: a new folder seqferry-bench-<id> here.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Say what would be staged, and stage nothing."
        ),
    ] = False,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    region: options.Region = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Compare the ways to bring the objects of a prefix to a task: file by file, as one tar, by a mount.

    Recursive copies, one tar copied, piped to tar and unpacked, a mount with cp and with tar, and a part of the files
    read in place, on your own data; medians, spread, and a verdict with what it saves for many tasks.
    """
    from seqferry.bench import output as folder_of
    from seqferry.bench.stage import comparison, page, report
    from seqferry.bench.stage.ways import NAMES

    names = [name.strip() for each in ways or () for name in each.split(",") if name.strip()]
    asked = comparison.StageParameters(tuple(dict.fromkeys(names)) or NAMES, read, tasks, warm_up, repetitions)
    plan = comparison.prepare(source, asked, scratch=scratch, endpoint_url=endpoint_url, profile=profile, region=region)
    show = _StageProgress(as_json=as_json, quiet=quiet)
    ways_told = text.count(len(plan.installed.ways), "way")
    show.say(f"{plan.data}, {text.size(plan.data.total)}: {ways_told}, {text.count(plan.runs, 'run')}")
    for line in plan.installed.left_out:
        show.say(line)
    if as_json:
        left_out = list(plan.installed.left_out)
        display.emit("plan", runs=plan.runs, files=len(plan.data.files), bytes=plan.data.total, left_out=left_out)
    if dry_run:
        return exits.OK
    folder = output or Path(plan.storage.place.prefix.rstrip("/").rpartition("/")[2])
    files: list[Path] = []
    missing = None
    with folder_of.output_folder(folder):
        outcome = comparison.run(plan, work_folder=work_folder, tell=show)
        result = report.document(plan, outcome)
        if outcome.runs:
            files, missing = folder_of.publish(result, folder, draw=page.draw, page=page.page, earlier=page.NAMES)
    if as_json:
        display.emit("report", files=[str(path) for path in files], report=result)
    elif not quiet:
        from seqferry.cli.commands.bench import print_tables

        print_tables(report.tables(result))
        print("\n".join(text.printable(line) for line in result["verdict"]))
    for line in (missing, *(f"wrote {text.printable(str(path))}" for path in files)):
        if line is not None:
            show.say(line)
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


class _StageProgress:
    """Progress, on stderr; with ``--json`` each run as an event on stdout."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet

    def say(self, line: str) -> None:
        if not self._quiet:
            display.say(text.printable(line))

    def ran(self, run: StageRun) -> None:
        if self._as_json:
            from seqferry.bench.stage.report import run_facts

            display.emit("run", **run_facts(run))
        what = f"{'warm-up' if run.round < 0 else f'round {run.round + 1}'}, {run.way}"
        if run.error is not None or run.cost is None:
            display.say(text.printable(f"  FAILED {what}: {run.error}"))
        else:
            self.say(f"  {what}: {run.cost.wall_s:.2f} s, {run.cost.cpu_s:.2f} s CPU, verified")
