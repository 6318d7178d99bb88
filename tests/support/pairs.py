"""Which server of storage and which database a test runs on: by default one of each, drawn for each case.

Most tests are about our own side, and the same code runs before each server and on each database. A test that is about
what servers or databases do differently has the marker ``every_server``, ``every_database`` or ``every_pair``.

A case is a test with its other parameters, so that the rows of a table are spread over both servers in one run. The
seed is the commit, so that each case meets the other pairs within a few commits.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from support.servers import KINDS

SEED: Final = "SEQFERRY_TEST_PAIRS_SEED"
MODE: Final = "SEQFERRY_TEST_PAIRS"
"""``all`` runs every pair of every test."""

DATABASES: Final = ("sqlite", "postgres")

_MARKERS: Final = {"every_server": {*KINDS}, "every_database": {*DATABASES}, "every_pair": {*KINDS, *DATABASES}}
"""The values that are not drawn for, by marker."""

Pair = tuple[str, ...]


def default_seed(root: Path) -> str:
    """The commit of the working tree; without git a fixed word, so that all processes of a run draw the same."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return found.stdout.strip() or "none"


class _LeftOut:
    """Prints how many cases the workers of pytest-xdist have left out, which they do not report."""

    count = 0

    def pytest_testnodedown(self, node: Any) -> None:
        self.count = max(self.count, getattr(node, "workeroutput", {}).get(MODE, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.count:
            terminalreporter.write_line(f"pairs: {self.count} cases deselected, on pairs that were not drawn")


def begin(config: pytest.Config) -> None:
    """Sets the seed of this run, in the process that starts the others."""
    os.environ.setdefault(SEED, default_seed(config.rootpath))
    if config.getoption("numprocesses", default=None):
        config.pluginmanager.register(_LeftOut())


def header() -> str:
    """A line that says which pairs run."""
    if os.environ.get(MODE) == "all":
        return "pairs: every server and every database for each test"
    seed = f"{SEED}={os.environ[SEED]}"
    return f"pairs: one server and one database for each test, drawn with {seed}; {MODE}=all runs all"


def draw(seed: str, case: str, pairs: Collection[Pair]) -> Pair:
    """One of the pairs, the same for the same seed and case, each as likely as the others."""
    return random.Random(f"{seed} {case}").choice(sorted(pairs))


def keep_drawn(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselects the items on servers and databases that are not drawn, except those that the user asks for by name."""
    if os.environ.get(MODE) == "all":
        return
    left_out = _left_out(items, os.environ[SEED], _named(config))
    if left_out:
        config.hook.pytest_deselected(items=[one for one in items if one in left_out])
        if hasattr(config, "workeroutput"):
            config.workeroutput[MODE] = len(left_out)
        items[:] = [one for one in items if one not in left_out]


def _named(config: pytest.Config) -> list[str]:
    """The node ids that the user asks for: by an argument with parameters, or by ``--last-failed``."""
    named = list(config.cache.get("cache/lastfailed", {})) if config.getoption("lf", default=False) else []
    for argument in config.args:
        path, separator, rest = argument.partition("::")
        if separator and "[" in rest:
            folder = config.invocation_params.dir
            named.append(f"{Path(os.path.relpath(folder / path, config.rootpath)).as_posix()}::{rest}")
    return named


def _left_out(items: Iterable[pytest.Item], seed: str, named: Collection[str]) -> set[pytest.Item]:
    """The items of each case on the pairs that are there and are not drawn."""
    cases: defaultdict[str, dict[Pair, pytest.Item]] = defaultdict(dict)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            case, pair = _case_and_pair(item)
            cases[case][pair] = item
    left_out: set[pytest.Item] = set()
    for case, found in cases.items():
        kept = draw(seed, case, found)
        left_out |= {one for pair, one in found.items() if pair != kept and one.nodeid not in named}
    return left_out


def _case_and_pair(item: pytest.Function) -> tuple[str, Pair]:
    """The node id of an item without the server and the database that are drawn for it, and these two.

    A parameter with the name of a server or a database as its value is one of them, whatever the fixture is called.
    """
    drawn = {*KINDS, *DATABASES}.difference(*(_MARKERS.get(one.name, ()) for one in item.iter_markers()))
    others = item.callspec.id.split("-")
    pair: list[str] = []
    for value in item.callspec.params.values():
        if isinstance(value, str) and value in drawn and value in others:
            others.remove(value)
            pair.append(value)
    return f"{item.nodeid.partition('[')[0]}[{'-'.join(others)}]", tuple(pair)
