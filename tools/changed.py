"""Checks what a change concerns, in about two minutes: format, lint, types, and the nearest tests. ``make check``.

    python tools/changed.py [--list] [--base COMMIT] [FILE ...]

The change is the difference between the working tree and HEAD, with files that git does not know yet. If there is
none, it is the last commit; --base names another commit, and files that are named take the place of all this.

A Python test concerns a changed file when its imports lead to it, or when one of the files on the way names it. The
nearest tests are chosen first, unit tests before others, until the budget of seconds is spent. Rust tests are those of
the changed crates. Everything else is left to ``make lint test``. Above all these tests are never chosen:

- tests that import nothing of the change because they start the command as a process (most of tests/e2e);
- tests of crates, and of Python modules, that use a changed crate.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

PYTHON_FOLDERS = ("python", "tests", "benches", "tools", "examples")
"""Folders that imports begin in."""

BUDGET = 240.0
"""Seconds of tests that are chosen at most. A choice: a minute in four processes, beside pyright on two cores."""

MOST_IMPORTS = 3
"""Imports between a unit test and a changed file, at most; one less for integration, two less for others. A choice."""

# Seconds of a test function with all its cases, the mean of its folder in a whole run with five processes.
SECONDS = {"tests/unit": 0.35, "tests/integration": 2.8, "tests/instruments": 1.0, "tests/benches": 1.0, "tests": 4.3}

MOST_TYPED = 60
"""Files that pyright checks by name. With more, checking the whole project is as quick."""

NAMED = 5
"""Test files that are left out and printed by name."""

PROCESSES = 2 * (os.cpu_count() or 1)
"""Processes of pytest, at most: tests wait for servers half of their time."""

# Built from crates, but not into the native module.
INSTRUMENT_CRATES = frozenset({"testkit", "store-testing"})

WORKSPACE = ("--workspace", "--exclude", "seqferry-py")
"""What ``make test`` gives to cargo. Any other choice of packages gives dependencies other features, which compiles
them anew. So the tests of all crates are compiled, which is quick, and those of the changed crates are run."""

_MODULE = re.compile(r"seqferry(\.\w+)+\.?")


class Source(NamedTuple):
    """A Python file: what it imports, which paths it names (``_paths``), and how many test functions it has."""

    imports: frozenset[str]
    paths: frozenset[str]
    tests: int


class Chosen(NamedTuple):
    """Test files that are run, and those that concern the change and are left out, each nearest first."""

    run: tuple[str, ...]
    left: tuple[str, ...]


class Crates(NamedTuple):
    """Changed crates, and options of ``cargo test`` for each."""

    tests: dict[str, tuple[str, ...]]
    all_concerned: bool
    native_concerned: bool


# --- the change -------------------------------------------------------------------------------------------------------


def _git(root: Path, *arguments: str) -> list[str]:
    ended = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"git {shlex.join(arguments)} failed: {ended.stderr.strip()}. Run `make lint test` instead.")
    return [name for name in ended.stdout.split("\0") if name]


def changed_files(root: Path, base: str | None) -> tuple[str, list[str]]:
    """The commit that the working tree is compared with, and the files that differ, deleted ones among them."""
    # Without renames: both names of a file that moved are changed.
    difference = ("diff", "--name-only", "--no-renames", "-z")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    found = {*_git(root, *difference, base or "HEAD", "--"), *new}
    if found or base:
        return base or "HEAD", sorted(found)
    return "HEAD~1", _git(root, *difference, "HEAD~1", "--")


# --- Python -----------------------------------------------------------------------------------------------------------


class Sources:
    """The Python files of a checkout, and which of them lead to which."""

    def __init__(self, root: Path, changed: Iterable[str]) -> None:
        files = {path for folder in PYTHON_FOLDERS for path in (root / folder).rglob("*.py")}
        self.changed = frozenset(changed)
        # Deleted files are imported as well, by files that must fail now.
        self._names = {path.relative_to(root).as_posix() for path in files} | self.changed
        self._packages: dict[str, set[str]] = {}
        for name in self._names:
            self._packages.setdefault(str(PurePosixPath(name).parent), set()).add(name)
        self.files = {path.relative_to(root).as_posix(): self._read(root, path) for path in files}
        self._importers: dict[str, set[str]] = {}
        for name, source in self.files.items():
            for imported in source.imports:
                self._importers.setdefault(imported, set()).add(name)

    def _read(self, root: Path, path: Path) -> Source:
        text = path.read_text(errors="replace")
        name = path.relative_to(root).as_posix()
        try:
            tree = ast.parse(text)
        except SyntaxError:  # ruff says it better
            return Source(frozenset(), frozenset(), 1)
        found: set[str] = set()
        tests = 0
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                tests += node.name.startswith("test_")
            elif isinstance(node, ast.Import):
                found.update(*(self._modules(name, alias.name) for alias in node.names))
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    found |= self._modules(name, f"{node.module}.{alias.name}") or self._modules(name, node.module)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # What import_module is called with, by its whole name or by that of its package.
                found |= self._modules(name, node.value) if _MODULE.fullmatch(node.value) else set()
        return Source(frozenset(found), frozenset(_paths(text)), tests)

    def _modules(self, importer: str, module: str) -> set[str]:
        """The file of a module as ``importer`` finds it; of a name that ends with a dot, all files of that package."""
        below = module.rstrip(".").replace(".", "/")
        # Folders of tests are on the path themselves, from that of the importer upward.
        parents = [str(parent) for parent in PurePosixPath(importer).parents if str(parent) != "."]
        for folder in (*parents, *PYTHON_FOLDERS):
            if module.endswith("."):
                if files := self._packages.get(f"{folder}/{below}"):
                    return files
            elif found := ({f"{folder}/{below}.py", f"{folder}/{below}/__init__.py"} & self._names) - {importer}:
                return found
        return set()

    def importers(self, name: str) -> set[str]:
        return self._importers.get(name, set())

    def _naming(self, changed: str) -> dict[str, int]:
        """Tests, and files beside ``changed``, that name it instead of importing it -> how far away they are."""
        path = PurePosixPath(changed)
        folders = [str(folder) for folder in path.parents if folder.parts]
        near = {changed} if folders else {f'"{changed}"'}
        far: set[str] = set()
        if path.suffix != ".py":
            far = {*folders[:-1], *(f'"{folder}"' for folder in folders[-1:]), f"*{path.suffix}"}
        if path.suffix not in (".py", ".rs"):
            near |= {"/".join(path.parts[-2:]), f'"{path.name}"'}
        found: dict[str, int] = {}
        for name, source in self.files.items():
            if name.startswith(("tests/", f"{path.parts[0]}/")) and name != changed:
                if not near.isdisjoint(source.paths):
                    found[name] = 1
                elif not far.isdisjoint(source.paths):
                    found[name] = 2
        if path.name == "conftest.py":
            found |= {name: 1 for name in self.files if _is_test(name) and name.startswith(f"{path.parent}/")}
        return found

    def distances(self) -> dict[str, int]:
        """The test files that concern the change -> how many imports there are between."""
        levels = [set(self.changed)]
        named: dict[int, set[str]] = {}
        for changed in self.changed:
            for name, distance in self._naming(changed).items():
                named.setdefault(distance, set()).add(name)
        found: dict[str, int] = {}
        while levels[-1] or named:
            level = levels[-1] - found.keys()
            distance = len(levels) - 1
            found |= dict.fromkeys(level, distance)
            levels.append(named.pop(distance + 1, set()).union(*map(self.importers, level)))
        return {name: distance for name, distance in found.items() if _is_test(name) and name in self.files}

    def seconds(self, test: str) -> float:
        folder = next(folder for folder in SECONDS if test.startswith(f"{folder}/"))
        return SECONDS[folder] * max(1, self.files[test].tests)


def _paths(text: str) -> set[str]:
    """Paths in a text, each with its folders; names in quotes, with them; and patterns of endings such as ``*.md``."""
    text = text.replace('" / "', "/")  # ROOT / "docs" / "use" names docs/use
    found = {f'"{name}"' for name in re.findall(r'"([\w.-]+)/?"', text)} | set(re.findall(r"\*\.\w+", text))
    for path in re.findall(r"[\w.*-]+(?:/[\w.*-]+)+", text):
        parts = path.rstrip(".").split("/")
        found |= {"/".join(parts[:number]) for number in range(2, len(parts) + 1)}
    return found


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and PurePosixPath(name).name.startswith("test_") and name.endswith(".py")


def _package(name: str) -> str | None:
    """``cost``, of python/seqferry/cost/lines.py and of tests/unit/cost/test_cost.py."""
    found = re.match(r"(?:python/seqferry|tests/(?:unit|integration))/(\w+)/", name)
    return found and found[1]


def choose_tests(sources: Sources, *, budget: float = BUDGET) -> Chosen:
    distances = sources.distances()
    packages = {_package(name) for name in sources.changed} - {None}
    lonely = {package for package in packages if not any(_package(name) == package for name in distances)}
    # Migrations, for example, are loaded by their folder.
    distances |= {name: 1 for name in sources.files if _is_test(name) and _package(name) in lonely}

    def rank(name: str) -> tuple[int, bool, int, str]:
        levels = ("tests/unit/", "tests/integration/", "tests/")
        level = next(number for number, folder in enumerate(levels) if name.startswith(folder))
        # A changed test comes before all others.
        return distances[name] and distances[name] + level, _package(name) not in packages, level, name

    run: list[str] = []
    left: list[str] = []
    for name in sorted(distances, key=rank):
        seconds = sources.seconds(name)
        # The first one is run whatever it takes.
        if rank(name)[0] <= MOST_IMPORTS and (seconds <= budget or not run):
            budget -= seconds
            run.append(name)
        else:
            left.append(name)
    return Chosen(tuple(run), tuple(left))


def typed_files(sources: Sources) -> list[str] | None:
    """The changed modules and their importers, for pyright; None stands for all modules."""
    changed = {name for name in sources.changed if re.fullmatch(r"python/.*\.pyi?", name)}
    if "pyproject.toml" in sources.changed or any(name.endswith(".pyi") for name in changed):
        return None
    importers = set().union(*map(sources.importers, changed))
    found = {name for name in changed | importers if name.startswith("python/") and name in sources.files}
    return sorted(found) if len(found) <= MOST_TYPED else None


# --- Rust -------------------------------------------------------------------------------------------------------------


def changed_crates(root: Path, changed: Iterable[str]) -> Crates:
    parts: dict[str, list[PurePosixPath]] = {}
    for name in changed:
        path = PurePosixPath(name)
        if path.parts[0] == "crates" and (root / "crates" / path.parts[1] / "Cargo.toml").exists():
            parts.setdefault(path.parts[1], []).append(PurePosixPath(*path.parts[2:]))
    tests: dict[str, tuple[str, ...]] = {}
    for crate, paths in sorted(parts.items()):
        targets = [_test_target(root / "crates" / crate, path) for path in paths]
        if None in targets:
            tests[crate] = ("--tests",)
        else:
            tests[crate] = tuple(word for target in sorted({*targets} - {None}) for word in ("--test", target))
    # What every crate is compiled by.
    whole = not {"Cargo.toml", "Cargo.lock", "clippy.toml"}.isdisjoint(changed)
    compiled = {crate for crate, options in tests.items() if options == ("--tests",)}
    return Crates(tests, whole, whole or not compiled <= INSTRUMENT_CRATES)


def _test_target(crate: Path, path: PurePosixPath) -> str | None:
    """The test binary of a crate that a file belongs to; None: not to one alone."""
    if path.parts[0] != "tests" or len(path.parts) < 2:
        return None
    name = PurePosixPath(path.parts[1]).stem
    is_target = (crate / "tests" / f"{name}.rs").exists() or (crate / "tests" / name / "main.rs").exists()
    return name if is_target else None


# --- running ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    name: str
    command: tuple[str, ...]


class Commands(NamedTuple):
    """Commands that ``make`` defines."""

    cargo: tuple[str, ...] = ("cargo",)
    cargo_test: tuple[str, ...] = ("cargo", "test", "--release", "--locked")
    page: tuple[str, ...] = ("make", "--silent", "check-page")


def quick_steps(changed: Iterable[str], commands: Commands) -> list[Step]:
    """Checks that take a second or less over all files."""
    binaries = Path(sys.executable).parent
    endings = {PurePosixPath(name).suffix for name in changed}
    steps = [
        Step("ruff format", (f"{binaries}/ruff", "format", "--check", "--quiet")),
        Step("ruff check", (f"{binaries}/ruff", "check", "--quiet")),
        Step("lint-imports", (f"{binaries}/lint-imports",)),
    ]
    if ".rs" in endings:
        steps.append(Step("cargo fmt", (*commands.cargo, "fmt", "--all", "--check")))
        steps += [
            Step(name, (sys.executable, f"tools/{name}.py")) for name in ("check_rust_modules", "check_rust_words")
        ]
    if any(PurePosixPath(name).name == "Cargo.toml" for name in changed):
        steps.append(Step("check_crates", (sys.executable, "tools/check_crates.py")))
    return steps


def long_steps(
    changed: Iterable[str], tests: Sequence[str], typed: Sequence[str] | None, crates: Crates, commands: Commands
) -> list[list[Step]]:
    """Lists of steps. The lists run beside each other, the steps of one in their order."""
    python = [sys.executable, "-m", "pytest", "--quiet", f"-n{min(len(tests), PROCESSES)}", *tests]
    clippy = (*commands.cargo, "clippy", "--release", "--locked", "--quiet", "--workspace", "--all-targets")
    # The bindings have no tests of their own.
    tested = {crate: options for crate, options in crates.tests.items() if crate != "py"}
    targets = sorted({*tested.values()})
    words = ("--tests",) if ("--tests",) in targets else tuple(word for options in targets for word in options)
    run = (*commands.cargo_test, "--quiet", *_runner(tested), *WORKSPACE, *words)
    rust = [Step(f"tests of {', '.join(tested)}", run)] if tested else []
    binaries = Path(sys.executable).parent
    found = [
        [Step("pytest", tuple(python))] if tests else [],
        [Step("clippy", (*clippy, "--", "-D", "warnings")), *rust] if crates.tests else [],
        [Step("pyright", (f"{binaries}/pyright", *(typed or ())))] if typed is None or typed else [],
        [Step("page", commands.page)] if any(name.startswith("web/") for name in changed) else [],
    ]
    return [steps for steps in found if steps]


def _runner(crates: Iterable[str]) -> tuple[str, ...]:
    """Options of cargo that make it run the test programs of these crates only."""
    names = "|".join(f"seqferry-{crate}" for crate in crates)
    words = ["sh", "-c", f'case "$CARGO_PKG_NAME" in {names}) exec "$@";; esac', "sh"]
    return "--config", f"target.'cfg(all())'.runner={json.dumps(words)}"


def run_steps(steps: Iterable[Step]) -> list[str]:
    """Runs steps one after another, prints each when it has ended, and returns the names of those that failed."""
    failed: list[str] = []
    for step in steps:
        begun = time.monotonic()
        ended = subprocess.run(
            step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
        lines = ended.stdout.strip().splitlines()
        word = "FAILED" if ended.returncode else "ok"
        title = f"{word:6}  {step.name}, {time.monotonic() - begun:.1f} s"
        if ended.returncode:
            failed.append(step.name)
            print("\n".join(("", f"$ {shlex.join(step.command)}", *lines, title, "")), flush=True)
        else:
            print(": ".join((title, *lines[-1:])), flush=True)
    return failed


def describe(base: str, sources: Sources, chosen: Chosen, crates: Crates) -> list[str]:
    """What is checked, and what is left to the whole run."""
    lines = [f"Files that {f'differ from {base}' if base else 'are named'}: {len(sources.changed)}"]
    if chosen.run:
        seconds = sum(map(sources.seconds, chosen.run))
        lines.append(f"Tests, nearest first, about {seconds:.0f} s in one process:")
        lines += [f"    {name}" for name in chosen.run]
    if chosen.left:
        more = ", ..." if len(chosen.left) > NAMED else ""
        lines.append(
            f"{len(chosen.left)} more test files concern this change (make test): "
            f"{', '.join(chosen.left[:NAMED])}{more}"
        )
    if crates.all_concerned:
        lines.append("Every crate is concerned: make lint test-rust")
    elif crates.tests:
        lines.append(f"Crates, without those that use them (make lint test-rust): {', '.join(crates.tests)}")
    if crates.native_concerned:
        lines.append("Python tests use the native module as it was built last: make build")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="files to take for changed")
    parser.add_argument("--base", metavar="COMMIT", help="commit that the working tree is compared with")
    parser.add_argument("--list", action="store_true", help="print what is chosen, run nothing")
    for name in Commands._fields:
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar="COMMAND", type=lambda text: tuple(shlex.split(text))
        )
    options = parser.parse_args()
    given = {name: value for name in Commands._fields if (value := getattr(options, name))}
    commands = Commands(**given)
    os.chdir(ROOT)
    base, changed = ("", sorted(options.files)) if options.files else changed_files(ROOT, options.base)

    sources = Sources(ROOT, changed)
    chosen, typed, crates = choose_tests(sources), typed_files(sources), changed_crates(ROOT, changed)
    print("\n".join(describe(base, sources, chosen, crates)), flush=True)
    if options.list:
        return 0
    failed = run_steps(quick_steps(changed, commands))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for names in pool.map(run_steps, long_steps(changed, chosen.run, typed, crates, commands)):
            failed += names
    print(f"Failed: {', '.join(failed)}" if failed else "Nothing failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
