"""``seqferry bench``."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from seqferry.cli import exits
from seqferry.cli.bench_options import BenchOutput, Preview, Repetitions, ReportFolder, WorkFolder
from seqferry.cli.commands.bench_stage import stage
from seqferry.cli.output import display, text
from seqferry.cli.output.benches import Progress, print_tables
from seqferry.model.frozen import frozen
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from seqferry.bench.gateway.comparison import GatewayRun
    from seqferry.bench.transfer import MeasuredRun, Outcome

bench = typer.Typer(help="Measure transfers and shares on your own storage.", rich_markup_mode=None)
bench.command()(stage)


@frozen
class BenchTarget:
    """Place that objects are written to."""

    PANEL: ClassVar = "Arguments"

    target: Annotated[
        str,
        typer.Argument(
            metavar="S3_URI",
            help="s3://bucket/prefix/. Objects are written below a new prefix in it.",
        ),
    ]


@frozen
class BenchTransfer:
    """Options for the files, the methods, and what becomes of the objects."""

    PANEL: ClassVar = "Options"

    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="NxSIZE",
            help="Files to transfer: 2GiB, 20x256MiB or 10000x100KiB. Separate with commas, or repeat. "
            "Default: 1x128MiB,100x64KiB.",
        ),
    ] = None
    direction: Annotated[
        str,
        typer.Option(
            "--direction",
            metavar="WAY",
            help="upload, download, both, copy (S3 to S3) or all.",
        ),
    ] = "both"
    copy_from: Annotated[
        str | None,
        typer.Option(
            "--copy-from",
            metavar="S3_URI",
            help="Source prefix of copies. Default: the target.",
        ),
    ] = None
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="Methods to run: boto3, boto3-tuned, crt, aws, s5cmd, rclone, seqferry; with Transfer "
            "Acceleration boto3-tuned-accelerated, seqferry-accelerated; for copies boto3-copy. Default: "
            "all that are installed.",
        ),
    ] = None
    threads: Annotated[
        list[str] | None,
        typer.Option(
            "--threads",
            metavar="N,N,...",
            help="Thread counts to measure, for methods that take one. Default: the method's own.",
        ),
    ] = None
    threads_up: Annotated[
        list[str] | None,
        typer.Option(
            "--threads-up",
            metavar="N,N,...",
            help="Thread counts for uploads. Default: --threads.",
        ),
    ] = None
    threads_down: Annotated[
        list[str] | None,
        typer.Option(
            "--threads-down",
            metavar="N,N,...",
            help="Thread counts for downloads. Default: --threads.",
        ),
    ] = None
    part_size: Annotated[
        list[str] | None,
        typer.Option(
            "--part-size",
            metavar="SIZE,...",
            help="Part sizes to measure, as 8MiB,64MiB, for methods that take one. Default: the method's own.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="Seed of the random data, to repeat a run with the same data.",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="REPORT.json",
            help="Earlier report to compare with.",
        ),
    ] = None
    acceleration: Annotated[
        str,
        typer.Option(
            "--acceleration",
            metavar="WHEN",
            help="Transfer Acceleration, which costs extra. auto: if the bucket has it enabled. on: required. "
            "off: not used.",
        ),
    ] = "auto"
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the objects in the bucket."),
    ] = False


@frozen
class BenchFolders:
    """Folders that are compared."""

    PANEL: ClassVar = "Arguments"

    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Folders to compare, or NAME=DIR."),
    ]


@frozen
class BenchGateway:
    """Options for the experiments on folders."""

    PANEL: ClassVar = "Options"

    size: Annotated[
        str,
        typer.Option(
            "--size",
            metavar="SIZE",
            help="Size of the medium file, as 64MiB. Other sizes scale with it.",
        ),
    ] = "1GiB"
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            metavar="N",
            help="Runs of small files. Other experiments have a quarter of them.",
        ),
    ] = 12
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds",
            metavar="N",
            help="Time limit of each fio run in seconds. 0: no limit.",
        ),
    ] = 60


@frozen
class Reports:
    """Reports of benches."""

    PANEL: ClassVar = "Arguments"

    reports: Annotated[list[Path], typer.Argument(metavar="REPORT.json...", help="Reports of the same bench.")]


@bench.callback()
def _group() -> None: ...


@bench.command()
def transfer(
    target: BenchTarget,
    given: BenchTransfer,
    runs: Repetitions,
    work: WorkFolder,
    report: ReportFolder,
    preview: Preview,
    endpoint: OneEndpoint,
    shown: BenchOutput,
) -> int:
    """Compare transfer tools on your bucket: speed, CPU and memory.

    Runs boto3 (default and tuned), the AWS CRT client, the AWS CLI, s5cmd, rclone and seqferry on the same
    random files. Each run is a separate process. Results are compared byte by byte, and the objects are
    deleted.
    """
    from seqferry.bench import compare
    from seqferry.bench import output as folder_of

    asked = compare.ask(
        workloads=given.workload or (),
        direction=given.direction,
        names=given.methods or (),
        threads=given.threads or (),
        threads_up=given.threads_up or (),
        threads_down=given.threads_down or (),
        acceleration=given.acceleration,
        part_sizes=given.part_size or (),
        warm_up=runs.warm_up,
        repetitions=runs.repetitions,
        seed=given.seed,
    )
    prepared = compare.prepare(
        target.target,
        asked,
        endpoint_url=endpoint.endpoint_url,
        profile=endpoint.profile,
        region=endpoint.region,
        baseline=given.baseline,
        copy_from=given.copy_from,
    )
    show = _BenchProgress(as_json=shown.as_json, quiet=shown.quiet)
    for line in prepared.lines(keep=given.keep):
        show.say(line)
    if shown.as_json:
        traffic = prepared.plan.traffic
        display.emit(
            "plan",
            prefix=prepared.storage.place.uri,
            runs=prepared.plan.runs,
            bytes_up=traffic.bytes_up,
            bytes_down=traffic.bytes_down,
            left_out=list(prepared.left_out),
        )
    if preview.dry_run:
        return exits.OK
    folder = report.output or Path(prepared.storage.place.prefix.rstrip("/").rpartition("/")[2])
    with folder_of.output_folder(folder):
        outcome, result = prepared.run(work_folder=work.work_folder, keep=given.keep, tell=show)
        files: list[Path] = []
        try:
            files, missing = compare.publish(result, folder) if outcome.runs else ([], None)
        finally:
            # Results are shown where the files cannot be written, and written where they cannot be shown.
            if shown.as_json:
                display.emit("report", files=[str(path) for path in files], report=result)
            elif not shown.quiet:
                _print(result)
            if outcome.left is not None:
                display.say(f"seqferry: {text.printable(outcome.left)}")
    show.say_written(missing, files)
    if outcome.error is not None:
        raise outcome.error
    return _exit_code(outcome)


@bench.command()
def gateway(
    folders: BenchFolders, given: BenchGateway, into: ReportFolder, preview: Preview, shown: BenchOutput
) -> int:
    """Compare folders on shares and disks with dd and fio.

    Repeats the experiment of the AWS Storage Blog on any folders. Reports medians, spread, outliers, three
    charts and a recommendation. Test files are deleted.
    """
    from seqferry.bench import output as folder_of
    from seqferry.bench.gateway import charts, comparison, disks, experiments, page, report, tools

    programs = tools.find()
    asked = experiments.GatewayParameters(experiments.parse(given.size), given.rounds, given.seconds)
    room = experiments.room(asked, fio=programs.fio is not None)
    plan = comparison.plan(asked, disks.folders(folders.folders, room), programs)
    show = _GatewayProgress(as_json=shown.as_json, quiet=shown.quiet)
    left_out = [] if programs.fio is not None else [tools.FIO_MISSING]
    counts = ((len(plan.folders), "folder"), (len(plan.experiments), "experiment"), (plan.runs, "run"))
    counted = ", ".join(text.count(number, noun) for number, noun in counts)
    moved = f"up to {text.size(plan.bytes)} are written and read, {text.size(room)} at a time in each folder"
    for line in (f"{counted}: {moved}", *left_out):
        show.say(line)
    if shown.as_json:
        display.emit("plan", runs=plan.runs, bytes=plan.bytes, left_out=left_out)
    if preview.dry_run:
        return exits.OK
    folder = into.output or _fresh_folder()
    with folder_of.output_folder(folder):
        outcome = comparison.run(plan, show)
        result = report.document(plan, outcome)
        files, missing = folder_of.publish(result, folder, draw=charts.draw, page=page.page, earlier=charts.NAMES)
    if shown.as_json:
        display.emit("report", files=[str(path) for path in files], report=result)
    elif not shown.quiet:
        print_tables(report.tables(result), [result["recommendation"]])
    show.say_written(missing, files)
    for path in outcome.left:
        display.say(f"seqferry: Could not be removed: {text.printable(path)}. Remove it by hand.")
    if outcome.interrupted:
        return exits.INTERRUPTED
    return exits.FAILED if outcome.failed or outcome.left else exits.OK


@bench.command(name="merge")
def merge_reports(reports: Reports, into: ReportFolder, shown: BenchOutput) -> int:
    """Combine reports of `bench gateway` or `bench transfer`."""
    from seqferry.bench import merged
    from seqferry.bench import output as folder_of

    result = merged.merge(reports.reports)
    folder = into.output or _fresh_folder()
    with folder_of.output_folder(folder):
        files, _ = folder_of.publish(result, folder, draw=merged.draw, page=merged.page, earlier=("no plots",))
    if shown.as_json:
        display.emit("report", files=[str(path) for path in files], report=result)
    elif not shown.quiet:
        print_tables(merged.tables(result))
    Progress(as_json=shown.as_json, quiet=shown.quiet).say_written(None, files)
    return exits.OK


def _fresh_folder() -> Path:
    return Path(f"seqferry-bench-{secrets.token_hex(6)}")


def _exit_code(outcome: Outcome) -> int:
    if outcome.interrupted:
        return exits.INTERRUPTED
    if any(run.mismatch for run in outcome.runs):
        return exits.MISMATCH
    return exits.FAILED if outcome.failed or not outcome.runs or outcome.left else exits.OK


class _BenchProgress(Progress):
    """The same, of runs of methods."""

    def ran(self, run: MeasuredRun) -> None:
        if self.as_json:
            from seqferry.bench.report import run_facts

            display.emit("run", **run_facts(run))
        turn = "warm-up" if run.round < 0 else f"round {run.round + 1}"
        what = f"{run.workload.name} {run.direction}, {turn}, {run.variant.label}"
        if run.error is not None or run.cost is None or run.speed is None:
            display.say(text.printable(f"  FAILED {what}: {run.error}"))
        else:
            seconds = run.cost.wall_s if run.on_disk_s is None else run.on_disk_s
            self.say(f"  {what}: {text.rate(run.speed)}, {seconds:.2f} s, {run.cost.cpu_s:.2f} s CPU, verified")


class _GatewayProgress(Progress):
    """The same, of runs of dd and fio."""

    def ran(self, run: GatewayRun) -> None:
        if self.as_json:
            from seqferry.bench.gateway.report import run_facts

            display.emit("run", **run_facts(run))
        what = f"{run.experiment.title}, round {run.round + 1}, {run.folder}"
        if run.speed is None or run.figures is None:
            word = "left out" if run.unsupported else "FAILED"
            say = self.say if run.unsupported else display.say
            say(text.printable(f"  {word} {what}: {run.error}"))
        else:
            self.say(f"  {what}: {text.rate(run.speed)}, {run.figures.seconds:.2f} s")


def _print(result: dict[str, Any]) -> None:
    from seqferry.bench import table

    tables = [*table.cases(result), *table.streams(result)]
    if result["results"]:
        head, rows = table.modelled_rows(result)
        tables.append(("AWS DataSync: modelled, not measured", head, rows))
    sentences = [each["sentence"] for each in result["recommendations"]]
    print_tables(tables, [*sentences, *(each["text"] for each in result["by_use"])])
