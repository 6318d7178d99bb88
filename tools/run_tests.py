"""Runs tests of cargo and pytest, and runs each test that failed once more, alone, after all others.

A test that passes then lost a race: it is printed as ``FLAKY name`` with its first failure. A test that fails again is
a fault. At most FORGIVEN flaky tests are forgiven in one run.

    python tools/run_tests.py [--cargo 'cargo test ...']... [--pytest 'python -m pytest ...'] [--lanes]

With --lanes heavy tests run only in the lanes that tools/lanes.py chooses, which are named at both ends of the output.
The last line is ``N passed, N failed, N skipped``. The exit status is 0 if nothing failed but forgiven tests.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import lanes

FORGIVEN = 5
"""A choice. A run in which more tests fail has a fault, or a machine that is too slow for it: nothing is repeated."""

TEXT_LINES = 60
"""Lines that are printed of the first failure of a flaky test. The whole stands further up in the output."""

FAILURES_VARIABLE = "SEQFERRY_TEST_FAILURES"
"""Names the file into which tests/conftest.py writes the counts and the failures of a run of pytest."""

_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_DETAILS = re.compile(r"^---- (.+) stdout ----$")
_TARGET_FAILED = re.compile(r"^error: (?:doc)?test failed, to rerun pass `(.+)`$")


@dataclass(frozen=True)
class Failure:
    """A test that failed: its name, the text of its failure, and the command that runs it alone."""

    name: str
    text: str
    alone: tuple[str, ...]


@dataclass
class Results:
    """Counts of tests, their failures, and the causes of a failed run that are no single test."""

    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])
    broken: list[str] = field(default_factory=list[str])


class CargoOutput:
    """Reads the output of ``cargo test --no-fail-fast``, line by line, into ``results``."""

    def __init__(self, alone: tuple[str, ...], results: Results) -> None:
        self._alone = alone
        self._results = results
        self._texts: dict[str, list[str]] = {}
        self._names: list[str] = []
        self._text: list[str] | None = None

    def add_line(self, line: str) -> None:
        if found := _RESULT.match(line):
            # Tests that cargo calls ignored are run, each by a test that starts it in a process of its own.
            self._results.passed += int(found[1])
            self._text = None
        elif found := _DETAILS.match(line):
            self._text = self._texts.setdefault(found[1], [])
        elif found := _TARGET_FAILED.match(line):
            self._end_target(shlex.split(found[1]))
        elif line == "failures:":
            # Stands twice: before the details, and before the names, each of which is indented.
            self._text = self._names = []
        elif self._text is not None:
            self._text.append(line)

    def _end_target(self, target: list[str]) -> None:
        names = [name.strip() for name in self._names if name.strip()]
        if not names:
            self._results.broken.append(f"cargo test {shlex.join(target)} ended before its tests did")
        for name in names:
            text = "\n".join(self._texts.get(name, ())).strip()
            alone = (*self._alone, *target, "--", "--exact", name)
            self._results.failures.append(Failure(f"{shlex.join(target)} {name}", text, alone))
        self._texts, self._names, self._text = {}, [], None


def _run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = os.environ,
    reader: CargoOutput | None = None,
    output: TextIO | None = None,
) -> int:
    """Runs a command and prints its output as it comes."""
    print("$", shlex.join(command), flush=True, file=output)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True, file=output)
            if reader is not None:
                reader.add_line(line.rstrip("\n"))
    return running.returncode


def run_cargo(command: list[str], results: Results, output: TextIO | None = None) -> None:
    # A failed target names its own package and target: of the options only those of the build stay.
    options = [word for word in command if word in ("--release", "--locked", "--offline", "--quiet")]
    before = len(results.failures) + len(results.broken)
    begin = command[: command.index("test") + 1]
    reader = CargoOutput((*begin, *options), results)
    status = _run([*command, "--no-fail-fast"], reader=reader, output=output)
    if status and len(results.failures) + len(results.broken) == before:
        results.broken.append(f"{shlex.join(command)} ended with status {status}")


def run_pytest(command: list[str], results: Results) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "failures.json")
        status = _run(command, environment={**os.environ, FAILURES_VARIABLE: str(file)})
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results.passed += found.get("passed", 0)
    results.skipped += found.get("skipped", 0)
    for name, text in found.get("failures", ()):
        # Without the other processes: one test has no use for them.
        results.failures.append(Failure(name, text, (*command, "-n0", name)))
    # 1 says that tests failed. Others say that something is wrong with the run: interrupted, no tests, wrong options.
    if status not in (0, 1) or (status and not found.get("failures")):
        results.broken.append(f"{shlex.join(command)} ended with status {status}")


def run_all(cargo: Sequence[str], pytest: Sequence[str]) -> Results:
    """Runs the commands of cargo beside those of pytest: each leaves a core idle now and then.

    What cargo prints comes whole, after what pytest prints.
    """
    results, of_cargo, output = Results(), Results(), io.StringIO()

    def run_each() -> None:
        for command in cargo:
            run_cargo(shlex.split(command), of_cargo, output if pytest else None)

    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(run_each)
        for command in pytest:
            run_pytest(shlex.split(command), results)
        running.result()
    print(output.getvalue(), end="", flush=True)
    results.passed += of_cargo.passed
    results.failures[:0] = of_cargo.failures
    results.broken[:0] = of_cargo.broken
    return results


def run_again(failures: list[Failure]) -> tuple[list[Failure], list[Failure]]:
    """Runs each failed test once more, alone: those that pass now, and those that fail again."""
    flaky: list[Failure] = []
    failed: list[Failure] = []
    for failure in failures:
        print(f"\nOnce more, alone: {failure.name}", flush=True)
        (failed if _run(failure.alone) else flaky).append(failure)
    return flaky, failed


def report(results: Results, choice: lanes.Choice | None = None, *, forgiven: int = FORGIVEN) -> int:
    """Runs the failed tests again, prints what came of the run, and returns the exit status."""
    flaky: list[Failure] = []
    failed = results.failures
    if 0 < len(failed) <= forgiven:
        flaky, failed = run_again(failed)
    elif failed:
        print(f"\n{len(failed)} tests failed. Up to {forgiven} are run once more; these were not.")
    for test in flaky:
        lines = test.text.splitlines()
        print(f"\nFLAKY {test.name}\nFailed among the others, passed alone. The first failure:")
        print("\n".join(f"    {line}" for line in lines[-TEXT_LINES:]))
    print()
    for test in failed:
        print(f"FAILED {test.name}")
    for cause in results.broken:
        print(f"BROKEN {cause}")
    for test in flaky:
        print(f"FLAKY {test.name}")
    if choice is not None:
        print(choice.summary)
    print(f"{len(flaky)} flaky, of at most {forgiven} that are forgiven")
    passed = results.passed + len(flaky)
    print(f"{passed} passed, {len(failed) + len(results.broken)} failed, {results.skipped} skipped", flush=True)
    return 1 if failed or results.broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cargo", action="append", default=[], metavar="COMMAND", help="a command: cargo test ...")
    parser.add_argument("--pytest", action="append", default=[], metavar="COMMAND", help="a command: pytest ...")
    parser.add_argument("--lanes", action="store_true", help="run heavy tests only in the lanes that are chosen")
    options = parser.parse_args()
    choice = lanes.current_choice() if options.lanes else None
    if choice is not None:
        print(choice, flush=True)
        os.environ[lanes.VARIABLE] = choice.names
    return report(run_all(options.cargo, options.pytest), choice)


if __name__ == "__main__":
    sys.exit(main())
