"""One run: servers, load, a schedule of faults, and calm phases in which everything is looked at."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos import schedule, sometimes
from chaos.executor import Executor, Log
from chaos.invariants import Invariants
from chaos.load import Load, simulator_buckets
from chaos.observer import Observer
from chaos.schedule import Fault
from chaos.world import World
from support.run import Run
from support.servers import Kind
from support.waiting import eventually

WORKERS: Final = 3
_CALM_SECONDS: Final = 120.0
"""Everything that was submitted has ended so long after the last fault is healed; else it counts as stuck."""


@dataclass(frozen=True)
class Options:
    seed: int
    faults: int
    gap: float
    minutes: float | None = None
    workers: int = WORKERS
    server: Kind = "seaweedfs"
    at_once: int = 4
    calm_every: float = 330.0
    first: tuple[str, ...] = ()
    """Kinds of faults to begin with."""
    demanded: frozenset[str] = frozenset()
    """What the run has to meet, of ``sometimes.ALL``."""


@dataclass
class Report:
    """What came of it."""

    options: Options
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    skipped: Counter[str] = field(default_factory=Counter[str])
    unseen: int = 0
    failed_levers: list[str] = field(default_factory=list[str])
    transfers: Counter[str] = field(default_factory=Counter[str])
    counted: Counter[str] = field(default_factory=Counter[str])
    recovery: list[float] = field(default_factory=list[float])
    takeover: list[float] = field(default_factory=list[float])
    last_minutes: list[str] = field(default_factory=list[str])
    tracebacks: list[str] = field(default_factory=list[str])
    met: Counter[str] = field(default_factory=Counter[str])
    """Levers and states, as ``sometimes.ALL`` names them."""

    @property
    def missed(self) -> list[str]:
        """What the run has to meet and has not met."""
        return sometimes.missed(self.met, self.options.demanded)

    @property
    def command(self) -> str:
        one = self.options
        return f"make chaos SEED={one.seed} FAULTS={one.faults} ARGS='--gap {one.gap} --server {one.server}'"

    def as_text(self) -> str:
        head = f"{sum(self.faults.values())} faults in {self.seconds:.0f} s; skipped: {dict(self.skipped) or 0}"
        lines = [
            f"{head}; {self.unseen} without the state that they waited for",
            f"faults: {_sorted(self.faults)}",
            f"submitted: {_sorted(self.transfers)}",
            f"counted: {_sorted(self.counted)}",
            f"from a fault to the next object on record: {_spread(self.recovery)}",
            f"from kill -9 until the work is at another worker: {_spread(self.takeover)}",
        ]
        lines.append(f"met: {_sorted(self.met)}")
        lines.append(f"never met: {', '.join(sometimes.missed(self.met)) or 'nothing'}")
        if self.missed:
            lines.append(f"MISSED of what this run has to meet: {', '.join(self.missed)}")
        if self.failed_levers:
            lines.append(f"levers that failed: {self.failed_levers[:5]}")
        if self.tracebacks:
            lines.append(f"{len(self.tracebacks)} workers printed a traceback; the first:\n{self.tracebacks[0]}")
        if self.violations:
            lines.append(f"{len(self.violations)} VIOLATIONS:")
            lines += [f"- {one}" for one in self.violations[:20]]
            lines += ["faults of the minute before:", *self.last_minutes[:1]]
        return "\n".join([*lines, f"again: {self.command}"])

    def as_json(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "options"}
        options = vars(self.options) | {"demanded": sorted(self.options.demanded)}
        return {"options": options, "command": self.command, **kept}


def run(options: Options, run_: Run, folder: Path, *, say: Callable[[str], None] = print) -> Report:
    """Run it whole; ``folder`` gets the schedule and all that happened."""
    faults = schedule.draw(
        options.seed,
        options.faults,
        workers=options.workers,
        gap=options.gap,
        calm_every=options.calm_every,
        first=options.first,
    )
    (folder / "schedule.jsonl").write_text(schedule.to_lines(faults))
    say(f"chaos: seed {options.seed}, {options.faults} faults; {folder} has the schedule and what happens")
    return _Trial(options, faults, Log(folder / "happened.jsonl"), say).run(run_, folder)


class _Trial:
    def __init__(self, options: Options, faults: list[Fault], log: Log, say: Callable[[str], None]) -> None:
        self._options = options
        self._faults = faults
        self._log = log
        self._say = say
        self._report = Report(options)

    def run(self, run_: Run, folder: Path) -> Report:
        options, report = self._options, self._report
        with ExitStack() as held:
            world = World(
                run_,
                run_.new_folder("chaos"),
                workers=options.workers,
                server=options.server,
                buckets=simulator_buckets(),
            )
            with held:
                self._world = held.enter_context(world)
                self._observer = held.enter_context(Observer(world))
                world.on_kill = self._observer.was_killed
                self._load = held.enter_context(
                    Load(world, self._observer, self._log, options.seed, at_once=options.at_once)
                )
                self._invariants = Invariants(world, self._observer)
                began = time.monotonic()
                until = None if options.minutes is None else began + 60 * options.minutes
                Executor(world, self._log).strike(self._faults, self._calm, until=until, first=options.first)
                report.seconds = time.monotonic() - began
                report.transfers = self._load.submitted
            report.tracebacks = [text for worker in world.workers for text in worker.tracebacks]
        self._save()
        return report

    def _save(self) -> None:
        self._sum_up()
        self._log.path.with_name("report.json").write_text(json.dumps(self._report.as_json(), indent=1))

    def _calm(self) -> None:
        """Wait until everything has ended, look at it, and go on."""
        began = time.monotonic()
        load, observer = self._load, self._observer
        if load.failure:
            raise RuntimeError(f"the load ended: {load.failure}")
        load.pause()
        violations: list[str] = []
        try:
            eventually(self._all_ended, what="everything to end", deadline=_CALM_SECONDS, every=0.5)
        except TimeoutError as stuck:
            violations += [f"stuck: {stuck}", *self._stuck()]
        ended = time.monotonic()
        observer.catch_up()
        jobs = load.take()
        try:
            struck = [one.began for one in self._log.struck if one.fault.kind.startswith("worker.")]
            violations += self._invariants.check(jobs, observer.take(), load.fed, struck)
        except Exception as why:  # noqa: BLE001 - what was found before must not be lost
            violations.append(f"the look failed: {type(why).__name__}: {why}")
        self._report.violations += violations
        for one in violations[:20]:
            self._log.tell(violation=one)
        if violations:
            self._report.last_minutes.append(self._log.last_minute(time.time()))
        self._say(
            f"chaos: {len(self._log.struck)} faults, {len(jobs)} transfers since the last calm; all ended after"
            f" {ended - began:.1f} s, looked at in {time.monotonic() - ended:.1f} s; {len(violations)} violations"
        )
        self._save()
        load.go_on()

    def _all_ended(self) -> bool:
        [(left,)] = self._observer.query(
            "SELECT (SELECT count(*) FROM transfer WHERE ended_at IS NULL)"
            " + (SELECT count(*) FROM dbos.workflow_status WHERE status IN ('PENDING', 'ENQUEUED'))"
        )
        return left == 0

    def _stuck(self) -> list[str]:
        rows = self._observer.query(
            "SELECT t.id, t.name, t.state, t.attended_by, t.waits_for, w.workflow_uuid, w.status, w.executor_id"
            " FROM transfer t LEFT JOIN dbos.workflow_status w ON w.workflow_uuid LIKE t.id || '%%'"
            " AND w.status IN ('PENDING', 'ENQUEUED') WHERE t.ended_at IS NULL"
        )
        return [str(row) for row in rows]

    def _sum_up(self) -> None:
        report, log = self._report, self._log
        report.faults = Counter(one.fault.kind for one in log.struck if not one.failure)
        report.skipped = log.skipped
        report.unseen = sum(not one.seen for one in log.struck)
        report.failed_levers = [f"{one.fault.kind}: {one.failure}" for one in log.struck if one.failure]
        report.counted = self._invariants.counted + self._world.words()
        report.counted["commands that failed"] = self._load.failed_commands
        states = report.counted + self._observer.counted
        waited = Counter(one.fault.when for one in log.struck if one.fault.when and one.seen)
        named = Counter({name: states[name] for name in sometimes.STATES})
        report.met = +(report.faults + waited + named)
        report.recovery = []
        report.takeover = [one.taken - one.killed for one in self._observer.claims]
        progress = self._observer.progress
        for one in log.struck:
            later = next((at for at, _ in progress if at > one.healed), None)
            if later is not None:
                report.recovery.append(later - one.healed)


def _sorted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    found = sorted(seconds)
    p95 = found[min(len(found) - 1, int(0.95 * len(found)))]
    return f"p50 {found[len(found) // 2]:.2f} s, p95 {p95:.2f} s, max {found[-1]:.2f} s ({len(found)})"
