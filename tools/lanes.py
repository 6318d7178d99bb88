"""Heavy tests in lanes. A lane runs when what it guards has changed since it last passed (tests/README.md).

    python tools/lanes.py choose            which lanes run, why, and which do not
    python tools/lanes.py choose --names    the lanes that run, for SEQFERRY_TEST_LANES
    python tools/lanes.py choose --tools    the make targets that they need
    python tools/lanes.py run LANE...       runs lanes and records those that pass
    python tools/lanes.py passed LANE...    records that lanes passed at this commit

The lanes are in tests/lanes.toml, the commits at which they passed in tests/lanes-passed.json. SEQFERRY_TEST_LANES
replaces the choice: ``all``, ``none``, or names separated by commas.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = "tests/lanes.toml"
PASSED: Final = "tests/lanes-passed.json"
VARIABLE: Final = "SEQFERRY_TEST_LANES"


@dataclass(frozen=True)
class Lane:
    """A group of heavy tests, and the paths that it guards."""

    shows: str
    tests: tuple[str, ...]
    """Folders, files, or ``file::function``."""
    guards: tuple[str, ...]
    """Pathspecs of git."""
    tools: tuple[str, ...] = ()
    """Targets of make."""
    versions: tuple[str, ...] = ()
    """Variables of the Makefile that pin what the tools are made of."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Pathspecs of everything whose change makes the lane run, but for ``versions``."""
        return (*self.guards, *(test.partition("::")[0] for test in self.tests))

    def has(self, nodeid: str) -> bool:
        """True for a test of this lane, by the name that pytest gives it."""
        return any(nodeid.startswith(test) and nodeid[len(test) :][:1] in ("", "/", ":", "[") for test in self.tests)


def read_lanes(root: Path = ROOT) -> dict[str, Lane]:
    table = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    return {
        name: Lane(**{key: value if key == "shows" else tuple(value) for key, value in lane.items()})
        for name, lane in table.items()
    }


def read_passed(root: Path = ROOT) -> dict[str, str]:
    """The commit at which each lane last passed."""
    file = root / PASSED
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def named(text: str, lanes: Iterable[str]) -> list[str]:
    """The lanes that SEQFERRY_TEST_LANES names.

    Raises:
        SystemExit: one of the names is that of no lane.
    """
    words = text.replace(",", " ").split()
    known = list(lanes)
    if words in (["all"], ["none"]):
        return known if words == ["all"] else []
    if unknown := [word for word in words if word not in known]:
        raise SystemExit(f"No lane has the name {', '.join(unknown)}. Lanes: {', '.join(known)}")
    return [lane for lane in known if lane in words]


@dataclass(frozen=True)
class Choice:
    """Which lanes run, each with the reason, and which do not."""

    runs: Mapping[str, str]
    left_out: tuple[str, ...]

    @property
    def names(self) -> str:
        """A value for SEQFERRY_TEST_LANES."""
        return ",".join(self.runs) or "none"

    @property
    def summary(self) -> str:
        """Two lines for the end of a run."""
        ran, left_out = (", ".join(names) or "none" for names in (self.runs, self.left_out))
        return f"Lanes that ran: {ran}\nLanes that did not run: {left_out}"

    def __str__(self) -> str:
        lines = [f"    {name}: {reason}" for name, reason in self.runs.items()]
        return "\n".join(["Lanes that run:", *lines, f"Lanes that do not run: {', '.join(self.left_out) or 'none'}"])


def choose(changes: Mapping[str, Sequence[str] | None], commits: int, wanted: str | None = None) -> Choice:
    """The lanes that run.

    Args:
        changes: for each lane the paths that changed since it passed; None where this is not known.
        commits: the number of commits; it says which of the other lanes takes its turn.
        wanted: the value of SEQFERRY_TEST_LANES.
    """
    if wanted is not None:
        runs = dict.fromkeys(named(wanted, changes), f"{VARIABLE}={wanted}")
        return Choice(runs, tuple(lane for lane in changes if lane not in runs))
    runs = {}
    for lane, paths in changes.items():
        if paths is None:
            runs[lane] = "no commit is known here at which it passed"
        elif paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            runs[lane] = f"changed since it passed: {paths[0]}{more}"
    if others := [lane for lane in changes if lane not in runs]:
        runs[others[commits % len(others)]] = "its turn"
    return Choice(runs, tuple(lane for lane in changes if lane not in runs))


def _git(root: Path, *words: str) -> str | None:
    """What git prints; None where it fails or is not installed."""
    try:
        ended = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return ended.stdout if ended.returncode == 0 else None


def changed_paths(lane: Lane, commit: str | None, root: Path = ROOT) -> list[str] | None:
    """The paths of a lane that differ from a commit in the working tree.

    None where git cannot compare with the commit: in a shallow clone, after history was rewritten, outside of git.
    """
    # An ancestor only: the state of another branch says nothing about this one.
    if commit is None or _git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    compare = ("diff", "--name-only", "--no-renames", "-z", commit)
    found = [
        _git(root, *compare, "--", *lane.paths),
        _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *lane.paths),
    ]
    if lane.versions:
        found.append(_git(root, *compare, f"-G^({'|'.join(lane.versions)}) :?=", "--", "Makefile"))
    if None in found:
        return None
    return [path for text in found if text for path in text.split("\0") if path]


def current_choice(root: Path = ROOT) -> Choice:
    """The lanes that run on the working tree as it is."""
    lanes = read_lanes(root)
    wanted = os.environ.get(VARIABLE)
    if wanted is not None:
        return choose(dict.fromkeys(lanes), 0, wanted)
    passed = read_passed(root)
    changes = {name: changed_paths(lane, passed.get(name), root) for name, lane in lanes.items()}
    return choose(changes, int(_git(root, "rev-list", "--count", "HEAD") or 0))


def current_commit(root: Path = ROOT) -> str | None:
    return (_git(root, "rev-parse", "HEAD") or "").strip() or None


def record(name: str, commit: str | None, root: Path = ROOT) -> str | None:
    """Writes that the lane passed at a commit.

    Returns:
        None; or the reason why nothing is recorded: the lane ran on something else than this commit.
    """
    changed = changed_paths(read_lanes(root)[name], commit, root)
    if commit is None or changed is None:
        return "git knows no commit here"
    if changed:
        return f"not as in the commit at which it began: {', '.join(changed)}"
    passed = {**read_passed(root), name: commit}
    (root / PASSED).write_text(json.dumps(passed, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return None


def run(names: Sequence[str]) -> int:
    """Runs each lane by itself, and records those in which every test passed."""
    from run_tests import Results, report, run_pytest  # which imports this module

    os.environ[VARIABLE] = ",".join(names)
    status = 0
    lines: list[str] = []
    for name, lane in ((name, read_lanes()[name]) for name in names):
        results, commit = Results(), current_commit()
        run_pytest([sys.executable, "-m", "pytest", *lane.tests], results)
        failed = report(results)
        status |= failed
        if failed:
            lines.append(f"{name} failed")
            continue
        skipped = f"{results.skipped} tests were skipped" if results.skipped else None
        refused = skipped or record(name, commit)
        how = f"is not recorded: {refused}" if refused else f"is recorded in {PASSED}: commit it with the change"
        lines.append(f"{name} passed and {how}")
    print("\n".join(["", *lines]))
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    form = commands.add_parser("choose").add_mutually_exclusive_group()
    form.add_argument("--names", action="store_true")
    form.add_argument("--tools", action="store_true")
    for command in ("run", "passed"):
        commands.add_parser(command).add_argument("lanes", nargs="+", metavar="LANE")
    given = parser.parse_args()
    if given.command == "choose":
        choice = current_choice()
        lanes = read_lanes()
        # Each once: lanes share tools.
        tools = dict.fromkeys(tool for name in choice.runs for tool in lanes[name].tools)
        print(choice.names if given.names else "\n".join(tools) if given.tools else choice)
        return 0
    names = named(" ".join(given.lanes), read_lanes())
    if given.command == "run":
        return run(names)
    refused = {name: why for name in names if (why := record(name, current_commit()))}
    for name, why in refused.items():
        print(f"{name} is not recorded: {why}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
