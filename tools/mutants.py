"""Plants deliberate faults (mutants) in a copy of the checkout, and finds out which tests catch them.

All mutants are planted together, each behind a switch: ``SEQFERRY_MUTANT=7`` turns on the seventh. Without the variable
the copy behaves as the original. So the copy is built once.

    git clone --local . /tmp/mutants
    python tools/mutants.py plant --seed 1 --count 40 /tmp/mutants    # judge each; then leave out equivalent ones:
    python tools/mutants.py plant --seed 1 --count 40 --without 3,8 /tmp/mutants

Build the copy. Fresh times of the sources make cargo compile them again although the copied target folder is younger:

    cp -a --parents .venv .tools target python/seqferry/api/page /tmp/mutants && cd /tmp/mutants
    sed -i "1s|^#!.*/.venv/bin/|#!$PWD/.venv/bin/|" $(grep -d skip -lI '^#!.*/.venv/bin/' .venv/bin/*)
    find crates -name '*.rs' -exec touch {} + && rm -f .venv/.stamp-native .tools/bin/writable_gateway
    touch .venv/.stamp-python && touch .venv/.stamp-packages
    make .venv/.stamp-native .tools/bin/writable_gateway compiled-tests

Then hunt them. Results are kept in the copy, and a hunt that was stopped goes on where it was:

    python tools/mutants.py tests /tmp/mutants     # which tests come first for which mutant
    python tools/mutants.py run /tmp/mutants [NUMBER ...]
    python tools/mutants.py run --whole --minutes 60 /tmp/mutants NUMBER ...    # what those tests miss

Tests of heavy lanes run only where ``SEQFERRY_TEST_LANES`` names them, unlike in a run of pytest by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mutant_operators import NUMBER, TEST_MODULE, Mutant, PythonFile, RustFile

ROOT = Path(__file__).parent.parent
VARIABLE = "SEQFERRY_MUTANT"
CRATES = [
    *("archive", "client", "gateway", "inventory", "mount", "nfs", "patterns", "py", "rows"),
    *("store", "transfer", "vfs"),
]
# Half of the mutants are drawn here: copying, durability and writing are what users lose data by.
FIRST_HALF = re.compile(r"crates/(store|transfer|gateway)/|python/seqferry/(db|workflows)/")

RUST_SWITCH = """
/// Switch of the mutants.
#[allow(dead_code, clippy::all, clippy::pedantic, clippy::disallowed_methods)]
mod mutants {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();

    /// True if the environment turns on this mutant.
    pub(crate) fn is_on(number: u32) -> bool {
        let read = || std::env::var("SEQFERRY_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        *NUMBER.get_or_init(read) == number
    }
}
"""
PYTHON_SWITCH = '''"""Switch of the mutants."""

import os

_NUMBER = int(os.environ.get("SEQFERRY_MUTANT") or 0)


def is_on(number: int) -> bool:
    """True if the environment turns on this mutant."""
    return number == _NUMBER
'''


# --- drawing and planting -------------------------------------------------------------------------------------------


def sources(tree: Path) -> Iterator[RustFile | PythonFile]:
    """All files that mutants are planted in."""
    for crate in CRATES:
        files = sorted((tree / "crates" / crate / "src").rglob("*.rs"))
        tests = {
            (file.parent if file.stem in {"lib", "mod"} else file.with_suffix("")) / name
            for file in files
            for name in TEST_MODULE.findall(file.read_text())
        }
        for file in files:
            is_test = file.stem in {"tests", "testing"} or file.stem.endswith("_tests")
            if not is_test and not tests & {file.with_suffix(""), *file.parents}:
                yield RustFile(str(file.relative_to(tree)), file.read_text())
    for file in sorted((tree / "python/seqferry").rglob("*.py")):
        if file.name not in {"__main__.py", "_mutants.py"}:
            yield PythonFile(str(file.relative_to(tree)), file.read_text())


def drawn(seed: int, files: list[RustFile | PythonFile], first: int) -> Iterator[tuple[int, Mutant]]:
    """Mutants in random order, numbered from ``first`` by twos: one of each function, with operators in turn."""
    rng = random.Random(f"{seed} {first}")
    found = {one.file: one.mutants() for one in files}
    files = [one for one in files if found[one.file]]
    sizes = [one.size() for one in files]
    used: Counter[tuple[str, str]] = Counter()
    number = first
    while any(found.values()):
        file = rng.choices(files, sizes)[0]
        mutants, language = found[file.file], type(file).__name__
        if not mutants:
            continue
        rarest = min(used[language, one.operator] for one in mutants)
        operator = rng.choice(sorted({one.operator for one in mutants if used[language, one.operator] == rarest}))
        mutant = rng.choice([one for one in mutants if one.operator == operator])
        found[file.file] = [one for one in mutants if one.function != mutant.function]
        used[language, operator] += 1
        yield number, mutant
        number += 2


def draw(tree: Path, seed: int, count: int, without: set[int]) -> dict[int, Mutant]:
    """The mutants by their numbers. Those of the first half are odd; a number means the same with any ``without``."""
    halves: tuple[list[RustFile | PythonFile], ...] = ([], [])
    for file in sources(tree):
        halves[not FIRST_HALF.match(file.file)].append(file)
    chosen: dict[int, Mutant] = {}
    for half, wanted in enumerate((count - count // 2, count // 2)):
        stream = drawn(seed, halves[half], half + 1)
        kept = (one for one in stream if one[0] not in without)
        chosen.update(one for one, _ in zip(kept, range(wanted), strict=False))
    return dict(sorted(chosen.items()))


def edited(source: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def plant(tree: Path, seed: int, count: int, without: set[int]) -> None:
    if tree.resolve() == ROOT.resolve():
        sys.exit(f"{tree} is this checkout: mutants are planted in a copy of it")
    kept = tree / "mutants.json"
    before: dict[str, str] = json.loads(kept.read_text())["originals"] if kept.exists() else {}
    for name, text in before.items():
        (tree / name).write_text(text)
    mutants = draw(tree, seed, count, without)

    edits: dict[str, list[tuple[int, int, str]]] = {}
    for number, mutant in mutants.items():
        text = mutant.text.replace(NUMBER, str(number))
        edits.setdefault(mutant.file, []).append((mutant.start, mutant.end, text))
    for name, mine in list(edits.items()):
        if name.endswith(".py"):
            at = PythonFile(name, (tree / name).read_text()).import_at()
            mine.append((at, at, "from seqferry import _mutants\n"))
        else:
            library = "/".join(name.split("/")[:3]) + "/lib.rs"
            end = len((tree / library).read_text())
            if (end, end, RUST_SWITCH) not in edits.setdefault(library, []):
                edits[library].append((end, end, RUST_SWITCH))

    originals = {name: (tree / name).read_text() for name in edits}
    record = {
        "seed": seed,
        "without": sorted(without),
        "mutants": {number: asdict(mutant) for number, mutant in mutants.items()},
        "originals": originals,
    }
    kept.write_text(json.dumps(record, indent=1))
    for name, mine in edits.items():
        (tree / name).write_text(edited(originals[name], mine))
    (tree / "python/seqferry/_mutants.py").write_text(PYTHON_SWITCH)
    # The tests hide variables that they do not know from what they start.
    conftest = tree / "tests/conftest.py"
    if VARIABLE not in conftest.read_text():
        conftest.write_text(conftest.read_text().replace("_OURS = {\n", f'_OURS = {{\n    "{VARIABLE}",\n', 1))
    print(f"seed {seed}: {len(mutants)} mutants\n")
    print_table(mutants)


def print_table(mutants: dict[int, Mutant]) -> None:
    print("| number | file | line | function | what |\n|---|---|---|---|---|")
    for number, mutant in mutants.items():
        what = mutant.what if len(mutant.what) <= 100 else f"{mutant.what[:97]}..."
        cells = (mutant.file, mutant.line, mutant.function.split(" (")[0], f"{mutant.operator}: {what}")
        print(f"| {number} |", " | ".join(str(cell).replace("|", "\\|") for cell in cells), "|")


def planted_mutants(tree: Path) -> dict[int, Mutant]:
    record = json.loads((tree / "mutants.json").read_text())
    return {int(number): Mutant(**one) for number, one in record["mutants"].items()}


# --- hunting --------------------------------------------------------------------------------------------------------

# Tests of one run: ``cargo`` and a crate, or ``pytest`` and paths.
Tests = tuple[str, ...]

CARGO = [
    *("cargo", "--config", "crates/tests.toml", "test", "--release", "--locked"),
    *("--quiet", "--no-run", "--message-format=json"),
    *("--tests", "--workspace", "--exclude", "seqferry-py"),
]

# What comes first for a mutant, by its crate or package: crates whose Rust tests use it, then folders below tests/.
# A package has its own folders of unit and integration tests before these.
TESTS = {
    "archive": ("archive vfs transfer", "e2e/pack e2e/unpack e2e/mount"),
    "client": ("client transfer vfs", "e2e/disk e2e/mirror integration/workflows"),
    "gateway": ("gateway", "e2e/gateway e2e/mount/test_mount_writable.py integration/service"),
    "inventory": ("inventory", "unit/planning integration/planning e2e/cli/test_cli_inventory.py"),
    "mount": ("mount", "e2e/mount"),
    "nfs": ("nfs gateway", "e2e/gateway"),
    "patterns": ("patterns", "unit/spec integration/planning e2e/cli"),
    "py": (
        "",
        "unit/engine unit/spec integration/engine e2e/disk e2e/properties e2e/unpack e2e/cli e2e/gateway e2e/mount",
    ),
    "rows": ("rows", "integration/workflows integration/db integration/proof"),
    "store": ("store client transfer gateway", "e2e/disk e2e/properties e2e/mirror integration/workflows"),
    "transfer": ("transfer", "integration/workflows e2e/mirror e2e/disk e2e/pack e2e/unpack e2e/properties"),
    "vfs": ("vfs gateway mount", "e2e/mount e2e/gateway"),
    "seqferry/api": ("", "e2e/web"),
    "seqferry/bench": ("", "e2e/bench e2e/test_bench.py"),
    "seqferry/cli": ("", "e2e/cli"),
    "seqferry/client.py": ("", "integration/api/test_client.py"),
    "seqferry/cost": ("", "integration/proof e2e/cli"),
    "seqferry/db": ("", "integration/workflows integration/service integration/proof integration/api e2e/mirror"),
    "seqferry/demo": ("", "e2e/test_demo.py"),
    "seqferry/doctor": ("", "e2e/cli"),
    "seqferry/engine": ("", "integration/workflows e2e/disk e2e/properties e2e/unpack e2e/gateway e2e/mount"),
    "seqferry/model": ("", "unit/spec integration/workflows integration/service e2e/cli"),
    "seqferry/nextflow": ("", "e2e/nextflow"),
    "seqferry/places": ("", "unit/spec integration/api e2e/cli e2e/test_aws_settings.py"),
    "seqferry/planning": ("", "integration/workflows e2e/unpack e2e/pack e2e/cli"),
    "seqferry/preflight": ("", "e2e/cli integration/workflows"),
    "seqferry/proof": ("", "integration/workflows e2e/cli"),
    "seqferry/service": ("", "integration/api integration/workflows e2e/cli"),
    "seqferry/settings": ("", "integration/service integration/api e2e/cli e2e/test_aws_settings.py"),
    "seqferry/spec": ("", "integration/workflows integration/planning integration/api e2e/cli e2e/nextflow"),
    "seqferry/workflows": ("", "integration/db integration/service e2e/mirror e2e/relay"),
}


def selection(tree: Path, mutant: Mutant) -> list[Tests]:
    """The tests that come first, in order. Each entry is one run."""
    area = mutant.file.split("/")[1]
    paths: list[str] = []
    runs: list[Tests] = []
    if area == "seqferry":
        package = mutant.file.split("/")[2]
        area = f"seqferry/{package}"
        module = mutant.file.removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        parent, _, name = module.rpartition(".")
        imports = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(parent)} import [^\n]*\b{name}\b")
        tests = sorted((tree / "tests").rglob("test_*.py"))
        named = [str(file.relative_to(tree)) for file in tests if imports.search(file.read_text())]
        if 0 < len(named) <= 12:  # a choice: what half of the tests import says nothing about where to look first
            runs.append(("pytest", *named))
        paths = [f"unit/{package}", f"integration/{package}"]
    crates, more = TESTS.get(area, ("", ""))
    runs += [("cargo", crate) for crate in crates.split()]
    found = [f"tests/{path}" for path in [*paths, *more.split()] if (tree / "tests" / path).exists()]
    return [*runs, *(("pytest", path) for path in found)]


class Hunt:
    """Runs tests of a built copy, with a mutant or without, and keeps what comes of it."""

    def __init__(self, tree: Path, processes: int) -> None:
        self.tree, self.processes = tree.resolve(), processes
        self.kept = tree / "mutants-results.json"
        self.results: dict[str, Any] = {"mutants": {}}
        if self.kept.exists():
            self.results = json.loads(self.kept.read_text())
        self._programs: dict[str, list[str]] = {}
        seed = str(json.loads((tree / "mutants.json").read_text())["seed"])
        lanes = os.environ.get("SEQFERRY_TEST_LANES", "none")
        self.variables = {"SEQFERRY_TEST_SEED": seed, **os.environ, "SEQFERRY_TEST_LANES": lanes}
        self.lanes = f"lanes {lanes}, pairs {os.environ.get('SEQFERRY_TEST_PAIRS', 'drawn')}"

    def keep(self) -> None:
        self.kept.write_text(json.dumps(self.results, indent=1))

    def programs(self, crate: str) -> list[str]:
        """The test programs of a crate. Cargo builds all crates: ``--package`` would choose other features."""
        if not self._programs:
            output = subprocess.run(CARGO, cwd=self.tree, check=True, stdout=subprocess.PIPE, text=True).stdout
            for message in map(json.loads, output.splitlines()):
                if message.get("executable") and message["profile"]["test"]:
                    name = Path(message["manifest_path"]).parent.name
                    self._programs.setdefault(name, []).append(message["executable"])
        return sorted(self._programs.get(crate, ()))

    def commands(self, tests: Tests) -> list[tuple[list[str], Path]]:
        kind, *names = tests
        if kind == "cargo":
            crates = CRATES if names == ["all"] else names
            return [
                ([one, "--quiet"], self.tree / "crates" / crate) for crate in crates for one in self.programs(crate)
            ]
        processes = "0" if "::" in names[0] else str(self.processes)
        return [([".venv/bin/python", "-m", "pytest", "-q", "-x", "-n", processes, *names], self.tree)]

    def run(self, tests: Tests, number: int, seconds: float) -> str | None:
        """The first test that fails, ``too slow`` after this time, or None."""
        end = time.monotonic() + seconds
        for command, folder in self.commands(tests):
            status, output, failed = self._run(command, folder, number, end - time.monotonic())
            program = Path(command[0]).name
            if status is None:
                return f"too slow: {' '.join(tests)} ({program})"
            if failed:
                return failed[0]
            if status not in (0, 5):  # pytest's 5: there are no such tests
                found = re.search(r"^---- (\S+) stdout ----$", output, re.MULTILINE)
                return f"{program} {found[1] if found else f'ended with status {status}'}"
        return None

    def _run(self, command: list[str], folder: Path, number: int, seconds: float) -> tuple[int | None, str, list[str]]:
        """Status (None: too slow), output, and the names that pytest's hook of failures wrote."""
        with tempfile.TemporaryDirectory() as kept, Path(kept, "output").open("w+") as output:
            failures = Path(kept, "failures.json")
            environment = {**self.variables, VARIABLE: str(number), "SEQFERRY_TEST_FAILURES": str(failures)}
            running = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            status = None
            try:
                status = running.wait(max(seconds, 1))
            except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
                running.send_signal(signal.SIGINT)  # pytest ends its servers
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(30)
                if isinstance(why, KeyboardInterrupt):
                    raise
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            output.seek(0)
            found: dict[str, Any] = json.loads(failures.read_text()) if failures.exists() else {}
            return status, output.read(), [name for name, _ in found.get("failures", ())]

    def hunt(self, number: int, selected: list[Tests], minutes: float) -> dict[str, Any]:
        """The verdict on a mutant. A failure counts if the same test passes without the mutant."""
        begun, by, verdict = time.monotonic(), None, "survived"
        for tests in selected:
            if by := self.run(tests, number, minutes * 60):
                again = ("pytest", by) if "::" in by and tests[0] == "pytest" else tests
                if again != tests and not self.run(again, number, minutes * 60):
                    verdict = "undecided: passes alone"
                else:
                    # What is too slow hangs if it needs a third of the time without the mutant: that is caught as well.
                    failed = self.run(again, 0, minutes * 60 / 3)
                    verdict = "undecided: without the mutant, too" if failed else "caught"
                break
        return {"verdict": verdict, "by": by, "seconds": round(time.monotonic() - begun), "how": self.lanes}


def run(tree: Path, numbers: list[int], *, minutes: float, whole: bool, processes: int) -> None:
    mutants = planted_mutants(tree)
    hunt = Hunt(tree, processes)
    for number in numbers or [one for one in mutants if str(one) not in hunt.results["mutants"]]:
        selected = [("cargo", "all"), ("pytest", "tests")] if whole else selection(tree, mutants[number])
        verdict = hunt.hunt(number, selected, minutes)
        hunt.results["mutants"][str(number)] = verdict
        hunt.keep()
        print(f"{number}: {verdict['verdict']} {verdict['by'] or ''} ({verdict['seconds']} s)", flush=True)
    print(dict(Counter(one["verdict"] for one in hunt.results["mutants"].values())))


def numbers_in(text: str) -> set[int]:
    return {int(number) for number in text.split(",") if number}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    planting = commands.add_parser("plant", help="plant mutants in a copy, and print them as a table")
    planting.add_argument("--seed", type=int, default=None, help="of the draw; not given: drawn and printed")
    planting.add_argument("--count", type=int, default=40)
    planting.add_argument("--without", type=numbers_in, default=set[int](), metavar="N,N", help="draw others for these")
    listing = commands.add_parser("tests", help="print the tests that come first for each mutant")
    running = commands.add_parser("run", help="run these tests in a built copy, until one catches the mutant")
    running.add_argument("--minutes", type=float, default=6, help="of each of these runs, at most")
    running.add_argument("--whole", action="store_true", help="run all tests")
    running.add_argument("--processes", type=int, default=4, help="of pytest")
    for command in (planting, listing, running):
        command.add_argument("tree", type=Path, metavar="TREE", help="the copy")
    running.add_argument("numbers", type=int, nargs="*", metavar="NUMBER", help="none: those without a verdict")
    options = parser.parse_args()
    if options.command == "plant":
        seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
        plant(options.tree, seed, options.count, options.without)
    elif options.command == "tests":
        for number, mutant in planted_mutants(options.tree).items():
            print(number, mutant.file, *map(" ".join, selection(options.tree, mutant)), sep="\n    ")
    else:
        run(
            options.tree,
            options.numbers,
            minutes=options.minutes,
            whole=options.whole,
            processes=options.processes,
        )


if __name__ == "__main__":
    main()
