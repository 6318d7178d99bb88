"""Runs every bench of the registry and makes one page and one JSON file of them: ``make bench``.

Each bench runs in rounds, each round a process of its own. With ``--base REF`` that ref is built beside this checkout,
and the benches *of this checkout* measure both builds in turns: the build that begins changes from round to round.
Nothing is asserted on speed. The status is 0 when all that ran measured what it was to measure, 1 when something
failed, 2 when nothing could be run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import builds
from figures import Result, merged
from harness import LEFT_OUT, RESULTS, tool
from page import page
from registry import BENCHES, Bench
from report import BASE, THIS, Attempt, Build, Report, Section
from seqferry.bench.machine import load, machine
from seqferry.bench.methods import version_of
from support.run import ROOT, MissingToolError
from verdict import FEWEST_ROUNDS, RULE

QUICK_ROUNDS = 2
WITHIN = 3600.0
"""Seconds for one round of a bench: far more than any takes, so that a bench which hangs is reported as such."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    benches = [bench for bench in BENCHES if not options.only or bench.name in options.only]
    try:
        with ExitStack() as stack:
            environments: dict[str, Mapping[str, str]] = {THIS: {}}
            shown = [Build(THIS, builds.commit(ROOT), _version({}))]
            if options.base:
                # Refused before anything is built or measured.
                target = builds.find(ROOT, options.base)
                print(f"Building {options.base} ({target.commit[:12]}) beside this checkout", flush=True)
                base = stack.enter_context(builds.built(target, ROOT / ".tools" / "base"))
                environments[BASE] = base.environment
                shown.append(Build(BASE, f"{base.commit} ({options.base})", _version(base.environment)))
            report = _run(options, benches, environments, shown)
    except (builds.RefusedError, MissingToolError) as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted: nothing was written", file=sys.stderr)
        return 130
    json_path, page_path = _write(report, options.output)
    for section in report.sections:
        for line in section.missing:
            print(f"{section.bench.name}: {line}")
        for line in section.errors:
            print(f"{section.bench.name}: FAILED: {line}", file=sys.stderr)
    _print_verdicts(report)
    print(f"\nAll values:  {_relative(json_path)}\nAs a page:   {_relative(page_path)}")
    if all(section.left_out for section in report.sections):
        return 2
    return 1 if report.failed else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Run all benches that need no cloud.")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows in a few minutes that all of it works")
    parser.add_argument("--base", metavar="REF", help="compare with the build of that commit, branch or tag")
    names = [bench.name for bench in BENCHES]
    parser.add_argument("--only", action="append", choices=names, help="run this bench only (may be repeated)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of each bench, instead of its own number")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER", help="default: benches/results/")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds has to be 1 or more")
    return options


def _rounds(options: argparse.Namespace, bench: Bench) -> int:
    if options.rounds:
        return options.rounds
    if options.quick:
        return QUICK_ROUNDS
    return max(bench.rounds, FEWEST_ROUNDS + 1) if options.base else bench.rounds


def _run(
    options: argparse.Namespace,
    benches: Sequence[Bench],
    environments: Mapping[str, Mapping[str, str]],
    shown: list[Build],
) -> Report:
    load_before = load()
    sections: list[Section] = []
    for bench in benches:
        words = bench.quick if options.quick else bench.full
        words = (*words, *(bench.ours if options.base else bench.peers))
        sections.append(_section(bench, words, _rounds(options, bench), environments))
    return Report(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=options.quick,
        command=_command(options),
        machine=machine(),
        load={"before": load_before, "after": load()},
        builds=shown,
        rule=RULE if options.base else None,
        sections=sections,
    )


def _section(
    bench: Bench, words: tuple[str, ...], rounds: int, environments: Mapping[str, Mapping[str, str]]
) -> Section:
    section = Section(bench, words)
    found: dict[str, list[Result]] = {build: [] for build in environments}
    if bench.builds_simulator and BASE in environments and "SEQFERRY_S3SIM" not in environments[BASE]:
        section.left_out = "the other build has no simulator"
        return section
    for round_ in range(rounds):
        # The build that begins changes: the other build leaves the machine in a different state.
        order = list(environments)[:: -1 if round_ % 2 else 1]
        for build in order:
            print(f"\n== {bench.name}, round {round_ + 1} of {rounds}, {build} build ==", flush=True)
            environment = dict(environments[build])
            if not bench.builds_simulator:
                environment.pop("SEQFERRY_S3SIM", None)
            attempt, result = _attempt(bench, words, round_, build, environment)
            if isinstance(result, str):
                section.left_out = result
                return section
            section.attempts.append(attempt)
            if result is not None:
                found[build].append(result)
    section.results = {build: merged(results) for build, results in found.items() if results}
    return section


def _attempt(
    bench: Bench, words: tuple[str, ...], round_: int, build: str, environment: Mapping[str, str]
) -> tuple[Attempt, Result | str | None]:
    """One run of a script. A text instead of a result: it is left out, and why."""
    load_before, began = load(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seqferry-bench-") as scratch:
        path = Path(scratch) / "result.json"
        command = [
            sys.executable,
            str(ROOT / "benches" / bench.script),
            *words,
            "--turn",
            str(round_),
            "--json",
            str(path),
        ]
        with (Path(scratch) / "errors").open("w+") as errors:
            try:
                status = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                    env={**os.environ, **environment},
                    timeout=WITHIN,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                status = None
            errors.seek(0)
            said = errors.read()
        print(said, end="", file=sys.stderr, flush=True)
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        if status == LEFT_OUT:
            return Attempt(build, round_, load_before, 0.0), last.removeprefix("left out: ")
        result, error = None, None
        if path.exists():
            try:
                result = Result.read(path)
            except ValueError as unreadable:
                error = f"{bench.script} wrote what is no result: {unreadable}"
        elif status is None:
            error = f"{bench.script} was not done after {WITHIN:.0f} s"
        else:
            error = f"{bench.script} ended with status {status}: {last}"
    return Attempt(build, round_, load_before, round(time.monotonic() - began, 1), error), result


def _version(environment: Mapping[str, str]) -> str:
    return version_of([environment.get("SEQFERRY_COMMAND") or tool("seqferry"), "--version"])


def _command(options: argparse.Namespace) -> str:
    words = [
        *(["--quick"] if options.quick else []),
        *(word for name in options.only or () for word in ("--only", name)),
        *(["--rounds", str(options.rounds)] if options.rounds else []),
    ]
    base = f" BASE={shlex.quote(options.base)}" if options.base else ""
    return f"make bench{base}" + (f' ARGS="{shlex.join(words)}"' if words else "")


def _write(report: Report, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"bench-{datetime.fromisoformat(report.at):%Y%m%dT%H%M%SZ}"
    json_path, page_path = folder / f"{name}.json", folder / f"{name}.html"
    report.write(json_path)
    page_path.write_text(page(report))
    return json_path, page_path


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _print_verdicts(report: Report) -> None:
    if report.rule is None:
        return
    for section in report.sections:
        for one in section.compared():
            found = one.verdict
            ratio = f"{found.ratio:.3f} [{found.low:.3f}..{found.high:.3f}] {found.word}" if found else "no ratio"
            print(f"{section.bench.name}: {one.group}, {one.figure}, {one.series}: new/old {ratio}")
    print(f"\n{report.rule}")


if __name__ == "__main__":
    sys.exit(main())
