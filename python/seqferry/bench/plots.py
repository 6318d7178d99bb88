"""Plots of a report, each as PNG and as SVG: drawn with matplotlib where it is installed.

Three kinds: speed by method, CPU time by method, and speed by number of threads. Dots are medians, lines reach from the
lowest to the highest run.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

MISSING: Final = "There are no plots, since matplotlib is not installed: pip install 'seqferry[bench]'"
COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bb5566", "#555555", "#997700")
_MARKERS: Final = ("o", "s", "^", "D", "v")
_MIB: Final = 2**20
_ROW: Final = 0.34
"""Inches."""
_WIDTH: Final = 8.0
_DPI: Final = 130


@dataclass(frozen=True, slots=True)
class Plot:
    name: str
    """Name of its file, without the ending."""
    title: str
    png: bytes
    svg: str
    """An ``svg`` element, to stand within a page."""


def draw(result: dict[str, Any]) -> tuple[list[Plot], str | None]:
    """All plots that there are figures for, and a line for the user when there can be none."""
    return drawn(lambda figures: [*_by_method(figures, result), *_by_threads(figures, result)])


def drawn(make: Callable[[Any], Iterable[Plot]]) -> tuple[list[Plot], str | None]:
    """The plots that ``make`` draws with matplotlib's figures, and a line for the user where it is not installed."""
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return [], MISSING
    # Text stays text, so that a page can be searched; names of parts derive from the plot, not from chance.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "seqferry", "font.size": 9}
    with matplotlib.rc_context(settings):
        return list(make(figures)), None


def _by_method(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    rows = [each for each in result["results"] if each["runs"]]
    kinds = (
        ("speed", "Speed", "bytes_per_second", _MIB, "MiB/s"),
        ("cpu", "Client CPU time", "cpu_s_per_gib", 1, "CPU seconds per GiB, less is better"),
    )
    for name, what, field, unit, axis in kinds:
        for direction in result["asked"]["directions"]:
            own = [each for each in rows if each["direction"] == direction]
            if own:
                title = f"{what} by method, {direction}"
                yield plot(f"{name}-{direction}", title, _ranges(figures, own, field, unit, axis, title))


def _ranges(figures: Any, rows: Sequence[dict[str, Any]], field: str, unit: float, axis: str, title: str) -> Any:
    """A panel for each workload, a row for each method."""
    workloads = list(dict.fromkeys(each["workload"] for each in rows))
    heights = [sum(each["workload"] == name for each in rows) for name in workloads]
    figure = figures.Figure(figsize=(_WIDTH, _ROW * sum(heights) + 0.85 * len(workloads) + 0.5), layout="constrained")
    panels = figure.subplots(len(workloads), 1, squeeze=False, height_ratios=heights)
    figure.suptitle(title)
    methods = list(dict.fromkeys(each["method"] for each in rows))
    for panel, name in zip(panels[:, 0], workloads, strict=True):
        own = [each for each in rows if each["workload"] == name]
        for place, each in enumerate(own):
            middle, low, high = (each[field][key] / unit for key in ("median", "low", "high"))
            colour = COLOURS[methods.index(each["method"]) % len(COLOURS)]
            panel.plot([low, high], [place, place], color=colour, linewidth=3, solid_capstyle="butt", alpha=0.45)
            panel.plot([middle], [place], "o", color=colour, markersize=6)
        panel.set_yticks(range(len(own)), [each["label"] for each in own])
        panel.set_ylim(len(own) - 0.5, -0.5)
        panel.set_xlim(left=0)
        panel.set_title(name, loc="left", fontsize=9, fontweight="bold")
        panel.grid(axis="x", alpha=0.3)
    panels[-1, 0].set_xlabel(f"{axis}; dot: median, line: lowest to highest run")
    return figure


def _by_threads(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    """A panel for each workload; a curve for each method and part size, a level for what chooses by itself."""
    rows = [each for each in result["results"] if each["runs"]]
    for direction in result["asked"]["directions"]:
        own = [each for each in rows if each["direction"] == direction]
        if len({each["threads"] for each in own if each["threads"] is not None}) < 2:
            continue
        workloads = list(dict.fromkeys(each["workload"] for each in own))
        figure = figures.Figure(figsize=(_WIDTH, 3.4 * len(workloads) + 0.4), layout="constrained")
        title = f"Speed by number of threads, {direction}"
        figure.suptitle(title)
        for panel, name in zip(figure.subplots(len(workloads), 1, squeeze=False)[:, 0], workloads, strict=True):
            _curves(panel, [each for each in own if each["workload"] == name])
            panel.set_title(name, loc="left", fontsize=9, fontweight="bold")
        yield plot(f"threads-{direction}", title, figure)


def _curves(panel: Any, rows: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys((each["method"], each["part_size"]) for each in rows))
    methods = list(dict.fromkeys(method for method, _ in names))
    sizes = list(dict.fromkeys(part_size for _, part_size in names))
    ticks = sorted({each["threads"] for each in rows if each["threads"] is not None})
    for method, part_size in names:
        own = [each for each in rows if (each["method"], each["part_size"]) == (method, part_size)]
        label = method if part_size is None else f"{method}, {part_size // _MIB} MiB parts"
        colour = COLOURS[methods.index(method) % len(COLOURS)]
        marker = _MARKERS[sizes.index(part_size) % len(_MARKERS)]
        curve = sorted((each for each in own if each["threads"] is not None), key=lambda each: each["threads"])
        if curve:
            speeds = [each["bytes_per_second"] for each in curve]
            middles = [speed["median"] / _MIB for speed in speeds]
            below = [(speed["median"] - speed["low"]) / _MIB for speed in speeds]
            above = [(speed["high"] - speed["median"]) / _MIB for speed in speeds]
            places = [each["threads"] for each in curve]
            panel.errorbar(places, middles, yerr=[below, above], marker=marker, capsize=3, label=label, color=colour)
        for each in own:
            if each["threads"] is None:
                level = each["bytes_per_second"]["median"] / _MIB
                panel.axhline(level, linestyle="--", color=colour, label=f"{label} (by default)")
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel("threads")
    panel.set_ylabel("MiB/s")
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))


def plot(name: str, title: str, figure: Any) -> Plot:
    """A figure of matplotlib in both forms."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": "seqferry"})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "seqferry"})
    text = svg.getvalue()
    # What stands before the element is for a file of its own.
    return Plot(name, title, png.getvalue(), text[text.index("<svg") :])
