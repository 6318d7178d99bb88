"""One run of one scenario: clients at work, kills, faults of the storage, and looks at what came of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from chaos import schedule
from chaos.executor import Executor, Log
from chaos.shares.clients import Client, Operations
from chaos.shares.comparison import Finding, compare
from chaos.shares.tree import SCENARIOS, Tree
from chaos.shares.world import ShareWorld
from support.run import Run
from support.servers import Kind

_CALM_EVERY_SECONDS: Final = 300.0
_GAP_SECONDS: Final = 2.0
FIRST: Final = ("gateway.kill", "storage.throttle", "storage.lost-replies")
"""Kinds of faults that each run begins with."""


@dataclass(frozen=True)
class Options:
    seed: int
    scenario: str
    minutes: float
    server: Kind = "seaweedfs"
    has_checksums: bool = True
    gap: float = _GAP_SECONDS
    """Mean seconds between two faults."""
    files: int = 0
    """Files in the first tree that a look waits for."""
    plant: Callable[[list[Tree]], None] | None = None
    """Changes the model before a look, for a test of the instrument itself."""

    @property
    def name(self) -> str:
        return f"{self.scenario}-{self.server}-{'with' if self.has_checksums else 'without'}-checksums"

    @property
    def command(self) -> str:
        more = f"--server {self.server} --checksums {'with' if self.has_checksums else 'without'} --gap {self.gap:g}"
        return f"make chaos-shares SEED={self.seed} SCENARIO={self.scenario} MINUTES={self.minutes:g} ARGS='{more}'"


@dataclass
class Report:
    """What came of it."""

    options: Options
    seconds: float = 0.0
    operations: Counter[str] = field(default_factory=Counter[str])
    asked_again: int = 0
    kills: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    failed_levers: list[str] = field(default_factory=list[str])
    looks: int = 0
    compared: int = 0
    lost: int = 0
    findings: list[str] = field(default_factory=list[str])
    recovery: list[float] = field(default_factory=list[float])
    is_versioned: bool = False
    skipped: str = ""
    """Why the machine cannot run it."""

    HEAD = (
        "| scenario | server | checksums | seed | versions | minutes | operations acknowledged | kills |"
        " storage faults | looks, files compared | lost | other findings | back after a kill: p50, max |\n"
        "|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )

    def as_row(self) -> str:
        one = self.options
        if self.skipped:
            return f"| {one.scenario} | SKIPPED: {self.skipped} |"
        faults = sum(self.faults.values()) - self.faults["gateway.kill"]
        cells = (
            one.scenario, one.server, "with" if one.has_checksums else "without", one.seed,
            "with" if self.is_versioned else "without", f"{self.seconds / 60:.1f}",
            f"{sum(self.operations.values()):,}", self.kills, faults, f"{self.looks}, {self.compared:,}", self.lost,
            len(self.findings) - self.lost, _spread(self.recovery),
        )  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"

    def as_text(self) -> str:
        lines = [f"{len(self.findings)} findings in {self.options.name}, seed {self.options.seed}:"]
        lines += [f"- {one}" for one in self.findings[:20]]
        return "\n".join([*lines, f"again: {self.options.command}"])


def run(options: Options, run_: Run, folder: Path) -> Report:
    """Run it whole; ``folder`` gets the schedule, the operations, and what the gateway printed.

    Raises:
        support.file_systems.NoFileSystemError, support.run.MissingToolError: this machine cannot run the scenario.
    """
    report = Report(options)
    count = int(options.minutes * 60 / options.gap * 1.3) + 1
    faults = schedule.draw(
        options.seed,
        count,
        workers=0,
        gap=options.gap,
        calm_every=_CALM_EVERY_SECONDS,
        first=FIRST,
        kinds=schedule.OF_SHARES,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.*"):
        old.unlink()
    (folder / "schedule.jsonl").write_text(schedule.to_lines(faults))
    log, operations = Log(folder / "happened.jsonl"), Operations(folder / "operations.jsonl")
    scenario = SCENARIOS[options.scenario]
    with ExitStack() as held:
        hold = held.enter_context
        world = hold(
            ShareWorld(
                run_,
                folder / "gateway.log",
                options.seed,
                scenario,
                kind=options.server,
                has_checksums=options.has_checksums,
            )
        )
        report.is_versioned = world.is_versioned
        clients = [hold(Client(number, world, operations, options.seed)) for number in range(scenario.clients)]
        began = time.monotonic()
        until = began + 60 * options.minutes
        trial = _Trial(world, clients, operations, report)
        trial.go_on()
        Executor(world, log).strike(faults, lambda: trial.look(until), until=until, first=FIRST)
        trial.look(until)
        report.seconds = time.monotonic() - began
    report.operations, report.asked_again = operations.counted, operations.asked_again
    report.kills, report.recovery = world.host.kills, world.host.recovery
    report.faults = Counter(one.fault.kind for one in log.struck if not one.failure)
    report.failed_levers = [f"{one.fault.kind}: {one.failure}" for one in log.struck if one.failure]
    report.findings += report.failed_levers
    (folder / "report.json").write_text(
        json.dumps({**vars(report), "options": vars(replace(options, plant=None))}, indent=1)
    )
    return report


class _Trial:
    def __init__(self, world: ShareWorld, clients: list[Client], operations: Operations, report: Report) -> None:
        self._world = world
        self._clients = clients
        self._operations = operations
        self._report = report
        self._is_at_work = False

    def go_on(self) -> None:
        self._is_at_work = True
        for one in self._clients:
            one.go_on()

    def look(self, until: float) -> None:
        """Hold the bucket against the model, with all faults healed; go on before this time of ``time.monotonic``."""
        if self._is_at_work:
            self._look()
            self._is_at_work = False
        if time.monotonic() < until:
            self._world.host.start()
            self.go_on()

    def _look(self) -> None:
        report, host = self._report, self._world.host
        first = self._world.trees[0]
        has_files = self._operations.wait_for(lambda: len(first.files) >= report.options.files)
        assert has_files, f"there are {len(first.files)} files"
        stuck = [f"client {number} does not rest" for number, one in enumerate(self._clients) if not one.pause()]
        failed = [text for one in self._clients for text in one.findings]
        for one in self._clients:
            one.findings.clear()
        drained = host.drain()
        if report.options.plant is not None:
            report.options.plant(self._world.trees)
        compared, differences = compare(self._world)
        report.looks += 1
        report.compared += compared
        report.lost += sum(one.is_lost for one in differences)
        report.findings += [*stuck, *failed, *host.ends, *drained, *map(self._told, differences)]
        host.ends.clear()
        # What follows is held against the rest.
        for tree in self._world.trees:
            tree.give_up([one.path.rstrip("/") for one in differences if one.path and one.path.startswith(tree.top)])

    def _told(self, finding: Finding) -> str:
        """A finding with the last operations on its path."""
        return "\n    ".join([f"{finding.path}: {finding.text}", *self._operations.of(finding.path)])


def _spread(seconds: list[float]) -> str:
    found = sorted(seconds)
    return f"{found[len(found) // 2]:.1f} s, {found[-1]:.1f} s" if found else "none"
