"""The page of ``make bench``: one HTML file that needs nothing else, readable in light and dark and on paper."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from charts import Mark, Strip, ratio_chart, strip
from figures import Figure, Result, number, ratios, spread
from report import BASE, THIS, ComparedFigure, Report, Section
from seqferry.bench.machine import condition_rows
from seqferry.bench.plots import make_plots
from seqferry.templates import environment

_WORD_COLOURS: Final = {"better": 2, "worse": 1, "different": 3, "within noise": 7}
_LABEL: Final[tuple[Callable[[ComparedFigure], str], ...]] = (
    lambda one: _first(one.group),
    lambda one: one.figure,
    lambda one: one.series,
)
_BUILD_NAMES: Final = {THIS: "new", BASE: "old"}
_DIRECTIONS: Final = {"lower": "lower is better", "higher": "higher is better", "": ""}

Drawing = Callable[[Any], str]
"""Draws a chart with matplotlib's figures."""


def page(report: Report) -> str:
    """The whole document."""
    two = len(report.builds) > 1
    drawings: list[Drawing] = []
    sections = [_section(section, drawings, two=two) for section in report.sections]
    charts, missing = make_plots(lambda figures: (draw(figures) for draw in drawings))
    return environment.render(
        "benches.html",
        folder=Path(__file__).parent,
        style="bench.css",
        title="Seqferry: two builds compared" if two else "Seqferry: benches",
        report=report,
        two=two,
        facts=list(_facts(report)),
        counts=_counts(report),
        sections=sections,
        charts=dict(enumerate(charts)),
        no_charts=missing,
    )


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    peers = [_version(name, version) for name, version in report.versions.items() if name != "seqferry"]
    yield from condition_rows(report.as_json())
    for build in report.builds:
        name = f"{_BUILD_NAMES[build.name]} build" if len(report.builds) > 1 else "build"
        yield name, f"{build.version}, commit {build.commit}"
    yield "peers", ", ".join([*peers, f"Python {report.machine['python']}"])
    yield "command", report.command


def _version(name: str, version: str) -> str:
    return version if name.split()[0] in version.lower() else f"{name} {version}"


def _counts(report: Report) -> str:
    words = [one.verdict.word for section in report.sections for one in section.compared() if one.verdict]
    return ", ".join(f"{words.count(word)} {word}" for word in _WORD_COLOURS if word in words) or "nothing to compare"


def _section(section: Section, drawings: list[Drawing], *, two: bool) -> dict[str, Any]:
    """What the page shows of a bench; its charts are added to ``drawings``."""
    results = section.results
    side_by_side = _compared(section) if two else _ratios(results[THIS]) if THIS in results else None
    return {
        "bench": section.bench,
        "simulated": section.simulated,
        "errors": section.errors,
        "missing": section.missing,
        "model": list(_flat(section.model)) if section.simulated and section.model else [],
        "verdicts": [_verdict(one) for one in section.compared()],
        "ratios": side_by_side and _side_by_side(*side_by_side, drawings),
        "groups": [
            (group, [_figure(by_build, drawings, two=two) for by_build in _by_key(section, group)])
            for group in dict.fromkeys(figure.group for result in results.values() for figure in result.figures)
        ],
        "command": " ".join([section.bench.script, *section.options]),
        "attempts": [
            (
                _BUILD_NAMES[one.build],
                str(one.round + 1),
                f"{one.load_before:.1f}",
                f"{one.seconds:.0f}",
                one.error or "",
            )
            for one in section.attempts
        ],
    }


def _verdict(one: ComparedFigure) -> dict[str, str]:
    found = one.verdict
    facts = {"group": one.group, "figure": one.figure, "series": one.series, "word": ""}
    if found is None:
        return facts
    return facts | {
        "word": found.word,
        "why": f" ({found.why})" if found.why else "",
        "ratio": _ratio(found.ratio),
        "interval": f"{_ratio(found.low)}..{_ratio(found.high)}",
    }


def _flat(fields: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, f"{value:,.6g}" if isinstance(value, float) else str(value)


Marks = list[tuple[str, list[Mark]]]


def _ratios(result: Result) -> tuple[str, Marks, str] | None:
    """All ratios to the baseline side by side: title, rows, and the name of the axis."""
    names = list(dict.fromkeys(name for figure in result.figures for name in figure.series))
    several = len({figure.group for figure in result.figures}) > 1
    rows: Marks = []
    for figure in result.figures:
        found = ratios(figure)
        marks = [Mark(*found[name], name, names.index(name)) for name in found if min(found[name]) > 0]
        if marks:
            rows.append((f"{_first(figure.group)} · {figure.name}" if several else figure.name, marks))
    if not rows:
        return None
    baseline = next(figure.baseline for figure in result.figures if figure.baseline)
    title = f"Ratios to {baseline}, side by side (dots: medians; bars: lowest to highest round)"
    return title, rows, f"times {baseline}, logarithmic scale"


def _compared(section: Section) -> tuple[str, Marks, str] | None:
    compared = section.compared()
    # A part of the label that all share says nothing.
    several = [len({part(one) for one in compared}) > 1 for part in _LABEL]
    rows: Marks = []
    for one in compared:
        if found := one.verdict:
            mark = Mark(found.ratio, found.low, found.high, found.word, _WORD_COLOURS[found.word])
            words = [part(one) for part, more in zip(_LABEL, several, strict=True) if more]
            rows.append((" · ".join(words) or one.figure, [mark]))
    title = "New / old (dots: median of all pairs of rounds; bars: interval)"
    return (title, rows, "new / old, logarithmic scale") if rows else None


def _side_by_side(title: str, rows: Marks, axis: str, drawings: list[Drawing]) -> dict[str, Any]:
    drawings.append(lambda figures: ratio_chart(figures, rows, axis))
    return {
        "title": title,
        "chart": len(drawings) - 1,
        "rows": [
            (label, mark.name, number(mark.ratio), number(mark.low), number(mark.high))
            for label, marks in rows
            for mark in marks
        ],
    }


def _first(group: str) -> str:
    """The part before the sizes."""
    return group.split(":")[0]


def _by_key(section: Section, group: str) -> Iterator[dict[str, Figure]]:
    """Each figure of a group, by build."""
    keys = dict.fromkeys(f.key for result in section.results.values() for f in result.figures if f.group == group)
    for key in keys:
        yield {
            build: figure for build, result in section.results.items() for figure in result.figures if figure.key == key
        }


def _figure(by_build: dict[str, Figure], drawings: list[Drawing], *, two: bool) -> dict[str, Any]:
    figure = next(iter(by_build.values()))
    rows: list[Strip] = []
    cells: list[Sequence[str]] = []
    names = dict.fromkeys(name for one in by_build.values() for name in one.series)
    for index, name in enumerate(names):
        for build, one in by_build.items():
            values = one.series.get(name)
            if not values:
                continue
            label = f"{name}, {_BUILD_NAMES[build]}" if two else name
            ratio = "" if two else _against(one, name)
            colour = (0 if build == THIS else 1) if two else index
            rows.append(Strip(label, values, f"{spread(values)}  {ratio}".strip(), colour))
            middle = number(statistics.median(values))
            cells.append((label, str(len(values)), middle, number(min(values)), number(max(values)), ratio))
    drawings.append(lambda figures: strip(figures, rows, figure.unit))
    dot = "" if figure.dot == "round" else f"a dot is a {figure.dot}"
    facts = ", ".join(part for part in (figure.unit, _DIRECTIONS[figure.better], dot) if part)
    return {"name": figure.name, "facts": facts, "chart": len(drawings) - 1, "rows": cells}


def _against(figure: Figure, name: str) -> str:
    if name == figure.baseline:
        return "×1" if len(figure.series) > 1 else ""
    found = ratios(figure).get(name)
    return f"×{_ratio(found[0])}" if found else ""


def _ratio(value: float) -> str:
    return f"{value:.3f}" if 0.1 <= value < 2 else number(value)
