"""``seqferry bench``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text

if TYPE_CHECKING:
    from seqferry.bench.transfer import MeasuredRun, Outcome

bench = typer.Typer(help="Measure on your own storage.", rich_markup_mode=None)

_PLAIN_WIDTH: Final = 200
"""Width of tables in characters: the least at a terminal, and the one without a terminal."""


@bench.callback()
def _group() -> None:
    """Measure on your own storage."""


@bench.command()
def transfer(
    target: Annotated[
        str,
        typer.Argument(
            metavar="S3_URI",
            help="s3://bucket/prefix/: objects are written below it, in a fresh prefix of the bench's own.",
        ),
    ],
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            envvar="SEQFERRY_BENCH_WORKLOAD",
            metavar="NxSIZE",
            help="Files to move, as 2GiB, 20x256MiB or 10000x100KiB. May be repeated, or divided by commas. "
            "Default: 1x128MiB,100x64KiB.",
        ),
    ] = None,
    direction: Annotated[
        str,
        typer.Option("--direction", envvar="SEQFERRY_BENCH_DIRECTION", metavar="WAY", help="upload, download or both."),
    ] = "both",
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            envvar="SEQFERRY_BENCH_METHODS",
            metavar="NAMES",
            help="Only these: boto3, boto3-tuned, crt, aws, s5cmd, rclone, seqferry; with Transfer Acceleration "
            "boto3-tuned-accelerated, seqferry-accelerated. Default: all that are installed.",
        ),
    ] = None,
    threads: Annotated[
        list[str] | None,
        typer.Option(
            "--threads",
            envvar="SEQFERRY_BENCH_THREADS",
            metavar="N,N,...",
            help="Measure methods that take a number of threads with each of these. Default: their own choice.",
        ),
    ] = None,
    part_size: Annotated[
        list[str] | None,
        typer.Option(
            "--part-size",
            envvar="SEQFERRY_BENCH_PART_SIZE",
            metavar="SIZE,...",
            help="Measure methods that take a part size with each of these, as 8MiB,64MiB. Default: their own choice.",
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
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", envvar="SEQFERRY_BENCH_SEED", metavar="N", help="Makes the same random data as another run."
        ),
    ] = None,
    work_folder: Annotated[
        Path | None,
        typer.Option(
            "--work-folder",
            envvar="SEQFERRY_BENCH_WORK_FOLDER",
            metavar="DIR",
            help="Where files lie meanwhile; the disk that matters to you. Default: the temporary folder.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            envvar="SEQFERRY_BENCH_OUTPUT",
            metavar="DIR",
            help="Where the report goes: JSON, HTML and plots. Default: a new folder seqferry-bench-<id> here.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", envvar="SEQFERRY_BENCH_KEEP", help="Leave the objects in the bucket.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Say what would be moved and what it would cost."
        ),
    ] = False,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    region: options.Region = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Compare the ways to move files to and from your bucket: speed, CPU time and memory of each, verified.

    boto3 as it is and tuned, AWS's CRT client, the AWS CLI, s5cmd, rclone and seqferry move the same random files, in
    turns, each run a process of its own. What arrives is compared byte for byte; nothing is left in the bucket.
    """
    from seqferry.bench import compare

    asked = compare.ask(
        workloads=workload or (),
        direction=direction,
        names=methods or (),
        threads=threads or (),
        part_sizes=part_size or (),
        warm_up=warm_up,
        repetitions=repetitions,
        seed=seed,
    )
    prepared = compare.prepare(target, asked, endpoint_url=endpoint_url, profile=profile, region=region)
    show = _BenchProgress(as_json=as_json, quiet=quiet)
    for line in prepared.lines(keep=keep):
        show.say(line)
    if as_json:
        traffic = prepared.plan.traffic
        display.emit(
            "plan",
            prefix=prepared.storage.place.uri,
            runs=prepared.plan.runs,
            bytes_up=traffic.bytes_up,
            bytes_down=traffic.bytes_down,
            left_out=list(prepared.left_out),
        )
    if dry_run:
        return exits.OK
    folder = output or Path(prepared.storage.place.prefix.rstrip("/").rpartition("/")[2])
    compare.make_output_folder(folder)
    outcome, result = prepared.run(work_folder=work_folder, keep=keep, tell=show)
    files: list[Path] = []
    try:
        files, missing = compare.publish(result, folder) if outcome.runs else ([], None)
    finally:
        # Results are shown where the files cannot be written, and written where they cannot be shown.
        if as_json:
            display.emit("report", files=[str(path) for path in files], report=result)
        elif not quiet:
            _print(result)
        if outcome.left is not None:
            display.say(f"seqferry: {text.printable(outcome.left)}")
    for line in (missing, *(f"wrote {text.printable(str(path))}" for path in files)):
        if line is not None:
            show.say(line)
    if outcome.error is not None:
        raise outcome.error
    return _exit_code(outcome)


def _exit_code(outcome: Outcome) -> int:
    if outcome.interrupted:
        return exits.INTERRUPTED
    if any(run.mismatch for run in outcome.runs):
        return exits.MISMATCH
    return exits.FAILED if outcome.failed or not outcome.runs or outcome.left else exits.OK


class _BenchProgress:
    """Progress, on stderr; with ``--json`` each run as an event on stdout."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet

    def say(self, line: str) -> None:
        if not self._quiet:
            display.say(text.printable(line))

    def ran(self, run: MeasuredRun) -> None:
        if self._as_json:
            from seqferry.bench.report import run_facts

            display.emit("run", **run_facts(run))
        turn = "warm-up" if run.round < 0 else f"round {run.round + 1}"
        what = f"{run.workload.name} {run.direction}, {turn}, {run.variant.label}"
        if run.error is not None or run.cost is None or run.speed is None:
            display.say(text.printable(f"  FAILED {what}: {run.error}"))
        else:
            self.say(f"  {what}: {text.rate(run.speed)}, {run.cost.wall_s:.2f} s, {run.cost.cpu_s:.2f} s CPU, verified")


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console

    from seqferry.bench import table

    # Lines that are too long for a terminal are broken by it: rather that than names and figures cut short.
    width = max(_PLAIN_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    for case, head, rows in table.cases(result):
        _table(console, case, head, rows)
    if result["results"]:
        head, rows = table.modelled(result)
        _table(console, "AWS DataSync: modelled, not measured", head, rows)
    for each in result["recommendations"]:
        console.print(f"{each['direction']}, {each['workload']}:", style="bold")
        console.print(f"  speed  {text.printable(each['speed_text'])}", soft_wrap=True)
        console.print(f"  CPU    {text.printable(each['cpu_text'])}", soft_wrap=True)


def _table(console: Any, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left", title_style="bold")
    for index, name in enumerate(head):
        made.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(text.printable(cell) for cell in row))
    console.print(made)
    console.print()
