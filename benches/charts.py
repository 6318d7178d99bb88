"""The two charts of the benches: the values of one figure, and ratios side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from seqferry.bench import plots

WIDTH: Final = 8.6
"""Inches."""
ROW: Final = 0.3
LONGEST_LABEL: Final = 52
_WIDE: Final = 30
"""From so many times on, between the lowest and the highest value, the scale is logarithmic."""
_DIVISIONS: Final = ((3, None), (20, (1, 1.5, 2, 3, 5, 7)), (1000, (1, 2, 5)), (float("inf"), (1,)))
"""Divisions of a decade by the ends of the scale; round steps where they are near."""


@dataclass(frozen=True)
class Strip:
    label: str
    values: Sequence[float]
    note: str
    """Stands at the right: median and range, ratio."""
    colour: int


@dataclass(frozen=True)
class Mark:
    ratio: float
    low: float
    high: float
    name: str
    colour: int


def strip(figures: Any, rows: Sequence[Strip], unit: str) -> str:
    """Each value a dot, the median a bar. With zero, but logarithmic where the values span much."""
    figure, panel = _panel(figures, [row.label for row in rows])
    for place, row in enumerate(rows):
        # Beside one another in height, so that equal values stay two dots.
        spread = 0.2 if len(row.values) > 1 else 0
        heights = [place + (turn % 3 - 1) * spread for turn in range(len(row.values))]
        size = 5 if len(row.values) <= 30 else 2.5
        panel.plot(row.values, heights, "o", markersize=size, color=_colour(row.colour), alpha=0.6, gid="values")
        if row.values:
            panel.vlines(statistics.median(row.values), place - 0.38, place + 0.38, color="#222222", gid="median")
    panel.secondary_yaxis("right").set_yticks(range(len(rows)), [row.note for row in rows])
    values = [value for row in rows for value in row.values]
    if min(values, default=0) > 0 and max(values) / min(values) > _WIDE:
        _logarithmic(panel, min(values) / 1.15, max(values) * 1.15)
        unit += ", logarithmic scale"
    else:
        low, high = min([0, *values]), max([0, *values])
        room = (high - low or 1) / 20
        panel.set_xlim(low and low - room, high + room)
    panel.set_xlabel(unit)
    return plots.svg_of(figure)


def ratio_chart(figures: Any, rows: Sequence[tuple[str, Sequence[Mark]]], axis: str) -> str:
    """A row of marks for each label; every mark has a bar from its lowest to its highest ratio."""
    figure, panel = _panel(figures, [label for label, _ in rows])
    marks = [mark for _, row in rows for mark in row]
    for place, (_, row) in enumerate(rows):
        for turn, mark in enumerate(row):
            height = place + (turn - (len(row) - 1) / 2) * min(0.2, 0.7 / len(row))
            panel.hlines(height, mark.low, mark.high, color=_colour(mark.colour))
            panel.plot([mark.ratio], [height], "o", color=_colour(mark.colour), label=mark.name)
    panel.axvline(1, color="#222222", linestyle="--", linewidth=1)
    _logarithmic(
        panel, min([0.8, *(mark.low for mark in marks)]) / 1.1, max([1.25, *(mark.high for mark in marks)]) * 1.1
    )
    panel.set_xlabel(axis)
    handles, labels = panel.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside upper left", ncols=4, fontsize=8, frameon=False)
    return plots.svg_of(figure)


def _panel(figures: Any, labels: Sequence[str]) -> tuple[Any, Any]:
    """A figure with one row for each label."""
    figure = figures.Figure(figsize=(WIDTH, ROW * len(labels) + 0.7), layout="constrained")
    panel = figure.subplots()
    panel.set_yticks(range(len(labels)), [_short(label) for label in labels])
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.grid(axis="x", alpha=0.3)
    return figure, panel


def _logarithmic(panel: Any, low: float, high: float) -> None:
    from matplotlib import ticker

    panel.set_xscale("log")
    panel.set_xlim(low, high)
    divisions = next(parts for most, parts in _DIVISIONS if high / low <= most)
    panel.xaxis.set_major_locator(ticker.LogLocator(subs=divisions) if divisions else ticker.MaxNLocator(6))
    panel.xaxis.set_major_formatter("{x:,.6g}")
    panel.minorticks_off()


def _colour(number: int) -> str:
    return plots.COLOURS[number % len(plots.COLOURS)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
