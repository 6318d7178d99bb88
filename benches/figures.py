"""What a bench measured, in the one form that the page, the comparison of two builds and other programs read.

A bench writes a ``Result``: figures, each a quantity of one piece of work with the values of every series (a method, a
process, a build), one value a round. Single numbers are never kept alone: the code that shows them makes medians
and ranges from the values.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

SCHEMA: Final = 1
"""Schema of results and reports. Raised when a field changes its meaning or goes; new fields do not raise it."""

PreferredDirection = Literal["lower", "higher", ""]
"""Which way is good; empty where neither is (how many requests were in flight)."""


@dataclass(frozen=True)
class Figure:
    group: str
    """The piece of work: ``versitygw, delivery``."""
    name: str
    """The quantity: ``wall time``."""
    unit: str
    better: PreferredDirection
    series: dict[str, list[float]]
    """Values in the order of the rounds, by the name of the method or process."""
    baseline: str | None = None
    """The series of which the others are shown as multiples."""
    dot: str = "round"
    """What one value is. All but rounds are not independent of their neighbours: no verdict is made of their spread."""

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.name


@dataclass
class Result:
    """Result of one run of a bench, or of several merged ones."""

    bench: str
    figures: list[Figure]
    simulated: bool = False
    """What S3 does follows from a model."""
    model: dict[str, Any] | None = None
    """The parameters of that model."""
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """What was not measured, and why: one line each."""
    errors: list[str] = field(default_factory=list)
    """What went wrong: one line each."""
    details: Any = None
    """The bench's own measurements; their form is its own."""

    def write(self, path: Path, **more: Any) -> None:
        """``more`` are further fields, such as the machine."""
        fields = {"schema": SCHEMA, **more, **asdict(self)}
        path.write_text(json.dumps(fields, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Result:
        """What ``write`` wrote.

        Raises:
            ValueError: the file is no JSON, or no result of this schema.
        """
        fields = json.loads(path.read_text())
        if fields.get("schema") != SCHEMA:
            raise ValueError(f"a result of schema {fields.get('schema')}, not {SCHEMA}")
        missing = sorted(cls.__dataclass_fields__.keys() - fields.keys())
        if missing:
            raise ValueError(f"a result without {', '.join(missing)}")
        known = {name: fields[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "figures": [Figure(**figure) for figure in known["figures"]]})


def merged(results: Sequence[Result]) -> Result:
    """Rounds of one bench, at least one, as one result: values one after the other, each line once."""
    joined: dict[tuple[str, str], Figure] = {}
    for result in results:
        for figure in result.figures:
            series = joined.setdefault(figure.key, Figure(**{**asdict(figure), "series": {}})).series
            for name, values in figure.series.items():
                series.setdefault(name, []).extend(values)
    return Result(
        bench=results[0].bench,
        figures=list(joined.values()),
        simulated=any(result.simulated for result in results),
        model=next((result.model for result in results if result.model), None),
        versions={name: version for result in results for name, version in result.versions.items()},
        left_out=_once(line for result in results for line in result.left_out),
        errors=_once(line for result in results for line in result.errors),
    )


def _once(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def ratios(figure: Figure) -> dict[str, tuple[float, float, float]]:
    """Ratios of each series to the baseline: of the medians, and the lowest and highest within a round.

    Rounds are paired where both series have as many; else lowest and highest are those of all pairs. Series are left
    out when the baseline is missing or holds a zero.
    """
    base = figure.series.get(figure.baseline or "")
    if not base or min(base) <= 0:
        return {}
    found: dict[str, tuple[float, float, float]] = {}
    for name, values in figure.series.items():
        if name == figure.baseline or not values:
            continue
        if len(values) == len(base):
            each = [value / other for value, other in zip(values, base, strict=True)]
        else:
            each = [value / other for value in values for other in base]
        found[name] = statistics.median(values) / statistics.median(base), min(each), max(each)
    return found


def number(value: float) -> str:
    """A value as a person reads it: about three digits that count, thousands apart."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"


def spread(values: Sequence[float]) -> str:
    """``median [lowest..highest]``."""
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} [{number(min(values))}..{number(max(values))}]"
