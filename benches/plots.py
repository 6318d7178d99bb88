"""Plots as inline SVG, drawn by hand: no library, no script, colours from the page's variables (light and dark).

Two kinds: ``strip`` shows the values of one figure, each a dot, the median marked; ``ratio_plot`` shows ratios side by
side on a logarithmic scale, each with its spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from figures import number

WIDTH: Final = 760
ROW: Final = 26
TOP: Final = 6
AXIS: Final = 30
CHARACTER: Final = 6.6
"""Width of a character of the labels at most, in pixels of the drawing."""
LONGEST_LABEL: Final = 52
TICK_ROOM: Final = 44
"""Room between the middles of two texts of an axis."""
_PARTS: Final = ((1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Divisions of a decade, from many to few."""
COLOURS: Final = 8
"""Classes ``c0`` to ``c7`` of the page's style."""


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


@dataclass(frozen=True)
class _Scale:
    """Map from values to pixels."""

    low: float
    high: float
    left: float
    right: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)


def strip(rows: Sequence[Strip], unit: str, title: str) -> str:
    """Each value a dot, the median a bar. From zero, but logarithmic where the values span more than thirty times."""
    values = [value for row in rows for value in row.values]
    positive = min(values, default=0) > 0
    logarithmic = positive and max(values) / min(values) > 30
    labels, notes = _column([row.label for row in rows]), _column([row.note for row in rows])
    left, right = labels + 10, WIDTH - notes - 10
    if logarithmic:
        scale = _Scale(min(values) / 1.15, max(values) * 1.15, left, right, logarithmic=True)
        ticks = _log_ticks(scale)
    else:
        ticks = _linear_ticks(max(values, default=0))
        scale = _Scale(0, ticks[-1], left, right, logarithmic=False)
    drawn: list[str] = []
    for index, row in enumerate(rows):
        middle = TOP + ROW * index + ROW / 2
        drawn.append(f'<text class="label" x="{labels}" y="{middle + 4:.1f}">{escape(_short(row.label))}</text>')
        drawn.append(f'<text class="note" x="{WIDTH}" y="{middle + 4:.1f}">{escape(row.note)}</text>')
        radius = 4 if len(row.values) <= 30 else 2.2
        for turn, value in enumerate(row.values):
            # Beside one another in height, so that equal values stay two dots.
            height = middle + ((turn % 3) - 1) * 5 if len(row.values) > 1 else middle
            drawn.append(
                f'<circle class="dot c{row.colour % COLOURS}" cx="{scale(value):.1f}" cy="{height:.1f}" r="{radius}"/>'
            )
        if row.values:
            place = scale(statistics.median(row.values))
            drawn.append(_upright("median", place, middle - 10, middle + 10))
    what = unit + (", logarithmic scale" if logarithmic else "")
    return _svg(_axis(scale, ticks, len(rows), what) + drawn, len(rows), title)


def ratio_plot(rows: Sequence[tuple[str, Sequence[Mark]]], axis: str, title: str) -> str:
    """A row of marks for each label; every mark has a bar from its lowest to its highest ratio."""
    marks = [mark for _, row in rows for mark in row]
    labels = _column([label for label, _ in rows])
    low = min([0.8, *(mark.low for mark in marks)]) / 1.1
    high = max([1.25, *(mark.high for mark in marks)]) * 1.1
    scale = _Scale(low, high, labels + 10, WIDTH - 12, logarithmic=True)
    drawn: list[str] = []
    for index, (label, row) in enumerate(rows):
        middle = TOP + ROW * index + ROW / 2
        drawn.append(f'<text class="label" x="{labels}" y="{middle + 4:.1f}">{escape(_short(label))}</text>')
        for turn, mark in enumerate(row):
            height = middle + (turn - (len(row) - 1) / 2) * min(5, 18 / max(1, len(row)))
            label = f"{mark.name}: {number(mark.ratio)} [{number(mark.low)}..{number(mark.high)}]"
            drawn.append(
                f'<g class="mark c{mark.colour % COLOURS}"><title>{escape(label)}</title>'
                f'<line x1="{scale(mark.low):.1f}" x2="{scale(mark.high):.1f}" y1="{height:.1f}" y2="{height:.1f}"/>'
                f'<circle cx="{scale(mark.ratio):.1f}" cy="{height:.1f}" r="4.5"/></g>'
            )
    one = scale(1)
    bottom = TOP + ROW * len(rows)
    unit = _upright("one", one, TOP, bottom)
    return _svg([*_axis(scale, _log_ticks(scale), len(rows), axis), unit, *drawn], len(rows), title)


def _upright(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _column(texts: Sequence[str]) -> float:
    return round(max((len(_short(text)) for text in texts), default=0) * CHARACTER)


def _svg(drawn: Sequence[str], rows: int, title: str) -> str:
    height = TOP + ROW * rows + AXIS
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(drawn)}</svg>"
    )


def _axis(scale: _Scale, ticks: Sequence[float], rows: int, unit: str) -> list[str]:
    bottom = TOP + ROW * rows
    drawn = [
        _upright("grid", scale(tick), TOP, bottom)
        + f'<text class="tick" x="{scale(tick):.1f}" y="{bottom + 13}">{tick:,.6g}</text>'
        for tick in ticks
    ]
    drawn.append(f'<text class="unit" x="{(scale.left + scale.right) / 2:.1f}" y="{bottom + 27}">{escape(unit)}</text>')
    return drawn


def _linear_ticks(high: float) -> list[float]:
    """Ticks from zero to beyond ``high``, in four to eight round steps."""
    if high <= 0:
        return [0.0, 1.0]
    step = 10.0 ** floor(log10(high))
    for part in (0.1, 0.2, 0.25, 0.5, 1.0):
        if high / (step * part) <= 7:
            step *= part
            break
    return [step * count for count in range(ceil(high / step + 1e-9) + 1)]


def _log_ticks(scale: _Scale) -> list[float]:
    """Round numbers, as many of each decade as have room for their texts."""
    decades = range(floor(log10(scale.low)), ceil(log10(scale.high)) + 1)
    ticks: list[float] = []
    for parts in _PARTS:
        ticks = [part * 10.0**decade for decade in decades for part in parts]
        ticks = [tick for tick in ticks if scale.low <= tick <= scale.high]
        places = [scale(tick) for tick in ticks]
        if all(after - before >= TICK_ROOM for before, after in pairwise(places)):
            break
    return ticks
