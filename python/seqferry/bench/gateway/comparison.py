"""All runs: each experiment on each folder in turn, in an order that rotates by round; what was made is removed."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from seqferry.bench.gateway import tools
from seqferry.bench.gateway.disks import Folder
from seqferry.bench.gateway.experiments import Experiment, GatewayParameters, experiments, job_bytes
from seqferry.bench.gateway.tools import Figures, Programs
from seqferry.bench.machine import load
from seqferry.bench.rounds import rotated
from seqferry.bench.stopping import exit_as_interrupted
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen


@frozen
class GatewayRun:
    """One run of an experiment.

    Attributes:
        place: position within its round.
        unsupported: the folder cannot do it; that is no failure.
    """

    experiment: Experiment
    folder: str
    round: int
    place: int
    load_before: float
    figures: Figures | None
    error: str | None = None
    unsupported: bool = False

    @property
    def speed(self) -> float | None:
        """Bytes per second."""
        return None if self.figures is None else self.figures.bytes / self.figures.seconds


@frozen
class GatewayPlan:
    """Runs to come."""

    parameters: GatewayParameters
    folders: Sequence[Folder]
    programs: Programs
    experiments: Sequence[Experiment]

    @property
    def direct(self) -> bool:
        """True when fio passes the page cache, which all folders must take: else they would not be alike."""
        return all(folder.takes_direct for folder in self.folders)

    @property
    def runs(self) -> int:
        return sum(each.rounds for each in self.experiments) * len(self.folders)

    @property
    def bytes(self) -> int:
        """Bytes that are written or read in all, at most."""
        return sum(each.rounds * each.bytes for each in self.experiments) * len(self.folders)


@dataclass
class GatewayOutcome:
    """Result of a comparison, also of one that was stopped half-way.

    Attributes:
        left: folders that could not be removed.
    """

    runs: list[GatewayRun] = field(default_factory=list[GatewayRun])
    interrupted: bool = False
    left: list[str] = field(default_factory=list[str])
    load_before: float = 0.0
    load_after: float = 0.0

    @property
    def failed(self) -> list[GatewayRun]:
        return [run for run in self.runs if run.error is not None and not run.unsupported]


class RunListener(Protocol):
    """Receives each run as it ends."""

    def ran(self, run: GatewayRun) -> None: ...


def plan(parameters: GatewayParameters, folders: Sequence[Folder], programs: Programs) -> GatewayPlan:
    """The plan of all runs."""
    return GatewayPlan(parameters, folders, programs, experiments(parameters, fio=programs.fio is not None))


def run(wanted: GatewayPlan, tell: RunListener) -> GatewayOutcome:
    """Run it all. Whatever happens, what was made is removed, or the outcome names it.

    Raises:
        UsageError: a folder cannot be written; nothing was done.
    """
    outcome = GatewayOutcome(load_before=load())
    made: dict[str, Path] = {}
    with exit_as_interrupted():
        try:
            for folder in wanted.folders:
                made[folder.name] = _new_folder(folder)
            with tempfile.TemporaryDirectory(prefix="seqferry-bench-") as scratch:
                _Runner(wanted, made, Path(scratch), outcome.runs, tell).all()
        except (KeyboardInterrupt, BrokenPipeError):
            outcome.interrupted = True
        finally:
            outcome.load_after = load()
            for path in made.values():
                shutil.rmtree(path, ignore_errors=True)
                if path.exists():
                    outcome.left.append(str(path))
    return outcome


def _new_folder(folder: Folder) -> Path:
    made = folder.path / f"seqferry-bench-{secrets.token_hex(6)}"
    try:
        made.mkdir()
    except OSError as why:
        raise UsageError(f"{folder.path} cannot be written: {why.strerror or why}.") from None
    return made


class _Runner:
    def __init__(
        self, wanted: GatewayPlan, made: dict[str, Path], scratch: Path, runs: list[GatewayRun], tell: RunListener
    ) -> None:
        self._wanted = wanted
        self._made = made
        self._scratch = scratch
        self._runs = runs
        self._tell = tell

    def all(self) -> None:
        for round_ in range(max(each.rounds for each in self._wanted.experiments)):
            for experiment in self._wanted.experiments:
                if round_ < experiment.rounds:
                    self._turn(experiment, round_)
            for path in self._made.values():
                _empty(path)  # the files of fio, which its experiments of a round share

    def _turn(self, experiment: Experiment, round_: int) -> None:
        """Each folder once; the first one is another in each round."""
        for place, folder in enumerate(rotated(self._wanted.folders, round_)):
            ran = self._once(experiment, folder, round_, place)
            self._runs.append(ran)
            self._tell.ran(ran)

    def _once(self, experiment: Experiment, folder: Folder, round_: int, place: int) -> GatewayRun:
        path, parameters = self._made[folder.name], self._wanted.parameters
        load_before = load()
        try:
            figures = tools.run(
                self._wanted.programs,
                experiment,
                path,
                self._scratch,
                job_bytes=job_bytes(parameters),
                seconds=parameters.seconds,
                direct=self._wanted.direct,
                takes_direct=folder.takes_direct,
            )
        except tools.RunError as why:
            unsupported = isinstance(why, tools.UnsupportedRunError)
            return GatewayRun(experiment, folder.name, round_, place, load_before, None, str(why), unsupported)
        finally:
            if experiment.pattern is None:
                _empty(path)
        return GatewayRun(experiment, folder.name, round_, place, load_before, figures)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
