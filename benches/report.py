"""All that one ``make bench`` found: the values behind its page, and the JSON file that other programs read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from figures import SCHEMA, PreferredDirection, Result
from registry import Bench
from verdict import Verdict, verdict

THIS = "this"
BASE = "base"


@dataclass(frozen=True)
class Build:
    """What was measured."""

    name: str
    """``this`` (the checkout that ran the benches) or ``base``."""
    commit: str
    version: str
    """Version as the command prints it."""


@dataclass(frozen=True)
class Attempt:
    """One run of a bench's script."""

    build: str
    round: int
    load_before: float
    """Processes that wanted a core in the minute before, others' included."""
    seconds: float
    error: str | None = None


@dataclass
class Section:
    """One bench: what it found with each build."""

    bench: Bench
    options: tuple[str, ...]
    attempts: list[Attempt] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    """Results by build, with the rounds merged."""
    left_out: str | None = None
    """Why it was not run, if it was not."""

    @property
    def errors(self) -> list[str]:
        failed = [attempt.error for attempt in self.attempts if attempt.error]
        return list(dict.fromkeys([*failed, *(line for result in self.results.values() for line in result.errors)]))

    @property
    def missing(self) -> list[str]:
        """What was not measured, and why."""
        lines = [self.left_out] if self.left_out else []
        return list(dict.fromkeys([*lines, *(line for result in self.results.values() for line in result.left_out)]))

    @property
    def simulated(self) -> bool:
        return any(result.simulated for result in self.results.values())

    @property
    def model(self) -> dict[str, Any] | None:
        return next((result.model for result in self.results.values() if result.model), None)

    def compared(self) -> list[ComparedFigure]:
        """Each series of each figure that both builds have."""
        if not {THIS, BASE} <= self.results.keys():
            return []
        old = {figure.key: figure for figure in self.results[BASE].figures}
        found: list[ComparedFigure] = []
        for figure in self.results[THIS].figures:
            other = old.get(figure.key)
            for name, values in figure.series.items():
                if other is None or name not in other.series or figure.dot != "round":
                    continue
                judged = verdict(values, other.series[name], figure.better)
                found.append(ComparedFigure(figure.group, figure.name, name, figure.unit, figure.better, judged))
        return found


@dataclass(frozen=True)
class ComparedFigure:
    group: str
    figure: str
    series: str
    unit: str
    better: PreferredDirection
    verdict: Verdict | None


@dataclass
class Report:
    at: str
    quick: bool
    command: str
    machine: dict[str, Any]
    load: dict[str, float]
    """``before`` and ``after`` all of it."""
    builds: list[Build]
    rule: str | None
    """How verdicts are made, when two builds are compared."""
    sections: list[Section]

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the peers and instruments."""
        return {
            name: version
            for section in self.sections
            for result in section.results.values()
            for name, version in result.versions.items()
        }

    @property
    def failed(self) -> bool:
        return any(section.errors for section in self.sections)

    def write(self, path: Path) -> None:
        """Writes the report as JSON of the schema ``figures.SCHEMA``: see ``docs/develop/benchmarks.md``."""
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n")

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "at": self.at,
            "quick": self.quick,
            "command": self.command,
            "machine": self.machine,
            "load": self.load,
            "versions": self.versions,
            "builds": [asdict(build) for build in self.builds],
            "rule": self.rule,
            "benches": [_section(section) for section in self.sections],
        }


def _section(section: Section) -> dict[str, Any]:
    return {
        "name": section.bench.name,
        "title": section.bench.title,
        "proves": section.bench.proves,
        "cannot": section.bench.cannot,
        "options": list(section.options),
        "simulated": section.simulated,
        "model": section.model,
        "left_out": section.missing,
        "errors": section.errors,
        "runs": [asdict(attempt) for attempt in section.attempts],
        "figures": [
            {"build": build, **asdict(figure)} for build, result in section.results.items() for figure in result.figures
        ],
        "compared": [asdict(compared) for compared in section.compared()],
    }
