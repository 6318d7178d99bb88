"""Plots of a report, each as PNG and as SVG: drawn with matplotlib where it is installed.

Four kinds: speed by method, CPU time by method, speed by number of threads, and its percent increase. Bars and dots are
medians, lines reach from the lowest to the highest run.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from seqferry.model.formatting import printable
from seqferry.model.frozen import frozen

MISSING: Final = "There are no plots, since matplotlib is not installed: pip install 'seqferry[bench]'"
COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bb5566", "#555555", "#997700")
_OURS: Final = "seqferry"
_OWN_COLOUR: Final = "#cc5500"
_OTHER_COLOUR: Final = "#8fa3b5"
_MARKERS: Final = ("o", "s", "^", "D", "v")
_MIB: Final = 2**20
_ROW: Final = 0.34
"""Inches."""
_WIDTH: Final = 8.0
_DPI: Final = 130


@frozen
class Plot:
    name: str
    """Name of its file, without the ending."""
    title: str
    png: bytes
    svg: str
    """An ``svg`` element, to stand within a page."""


def draw(result: dict[str, Any]) -> tuple[list[Plot], str | None]:
    """All plots that there are figures for, and a line for the user when there can be none."""
    return make_plots(
        lambda figures: [*_by_method(figures, result), *_by_threads(figures, result), *_by_streams(figures, result)]
    )


def make_plots(make: Callable[[Any], Iterable[Plot]]) -> tuple[list[Plot], str | None]:
    """The plots that ``make`` draws with matplotlib's figures, and a line for the user where it is not installed."""
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return [], MISSING
    # Text stays text, so that a page can be searched; names of parts derive from the plot, not from chance.
    # Names of folders and methods may hold dollars, which are no formulas.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "seqferry", "font.size": 9, "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters that the font has not: they are boxes
        return list(make(figures)), None


def _by_method(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    rows = [each for each in result["results"] if each["runs"]]
    kinds = (
        ("speed", "Speed", "bytes_per_second", _MIB, "MiB/s", True),
        ("cpu", "Client CPU time", "cpu_s_per_gib", 1, "CPU seconds per GiB, less is better", False),
    )
    for name, what, field, unit, axis, most in kinds:
        for direction in result["asked"]["directions"]:
            own = [each for each in rows if each["direction"] == direction and each[field]]
            if own:
                own.sort(key=lambda each: each[field]["median"], reverse=most)
                title = f"{what} by method, {direction}"
                yield plot(f"{name}-{direction}", title, ranges(figures, own, field, unit, axis, title))


def ranges(figures: Any, rows: Sequence[dict[str, Any]], field: str, unit: float, axis: str, title: str) -> Any:
    """A panel for each workload, a bar for each method in the order of the rows; ours stands out."""
    workloads = sorted({each["workload"] for each in rows})
    heights = [sum(each["workload"] == name for each in rows) for name in workloads]
    figure = figures.Figure(figsize=(_WIDTH, _ROW * sum(heights) + 0.85 * len(workloads) + 0.5), layout="constrained")
    panels = figure.subplots(len(workloads), 1, squeeze=False, height_ratios=heights)
    figure.suptitle(title)
    for panel, name in zip(panels[:, 0], workloads, strict=True):
        own = [each for each in rows if each["workload"] == name]
        for place, each in enumerate(own):
            middle, low, high = (each[field][key] / unit for key in ("median", "low", "high"))
            panel.barh(place, middle, height=0.62, color=_OWN_COLOUR if _is_ours(each) else _OTHER_COLOUR)
            panel.plot([low, high], [place, place], color="#222222", linewidth=1.4, marker="|", markersize=7)
        panel.set_yticks(range(len(own)), [each["label"] for each in own])
        for label, each in zip(panel.get_yticklabels(), own, strict=True):
            label.set_fontweight("bold" if _is_ours(each) else "normal")
        panel.set_ylim(len(own) - 0.5, -0.5)
        panel.set_xlim(left=0)
        panel.set_title(name, loc="left", fontsize=9, fontweight="bold")
        panel.grid(axis="x", alpha=0.3)
    figure.supxlabel(f"{axis}; bar: median, line: lowest to highest run; Seqferry in bold and colour", fontsize=8)
    return figure


def _is_ours(row: dict[str, Any]) -> bool:
    return str(row["method"]).startswith(_OURS)


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


def _by_streams(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    """A panel for each workload; a curve of percents for each method and part size."""
    for direction in result["asked"]["directions"]:
        own = [each for each in result["streams"] if each["direction"] == direction]
        if not own:
            continue
        workloads = list(dict.fromkeys(each["workload"] for each in own))
        figure = figures.Figure(figsize=(_WIDTH, 3.4 * len(workloads) + 0.4), layout="constrained")
        title = f"Percent increase by number of streams, {direction}"
        figure.suptitle(title)
        for panel, name in zip(figure.subplots(len(workloads), 1, squeeze=False)[:, 0], workloads, strict=True):
            _increase(panel, [each for each in own if each["workload"] == name])
            panel.set_title(name, loc="left", fontsize=9, fontweight="bold")
        yield plot(f"streams-{direction}", title, figure)


def _increase(panel: Any, rows: Sequence[dict[str, Any]]) -> None:
    kinds = list(dict.fromkeys((each["method"], each["part_size"]) for each in rows))
    methods = list(dict.fromkeys(method for method, _ in kinds))
    sizes = list(dict.fromkeys(part_size for _, part_size in kinds))
    for method, part_size in kinds:
        own = [each for each in rows if (each["method"], each["part_size"]) == (method, part_size)]
        panel.plot(
            [each["threads"] for each in own],
            [each["increase_percent"] for each in own],
            marker=_MARKERS[sizes.index(part_size) % len(_MARKERS)],
            color=COLOURS[methods.index(method) % len(COLOURS)],
            label=method if part_size is None else f"{method}, {part_size / _MIB:g} MiB parts",
        )
    _threads_axis(panel, sorted({each["threads"] for each in rows}))
    panel.axhline(0, color="#555555", linewidth=0.8)
    panel.set_ylabel(f"% against {rows[0]['against_threads']}")


def _threads_axis(panel: Any, ticks: Sequence[int]) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel("threads")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))


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
    _threads_axis(panel, ticks)
    panel.set_ylabel("MiB/s")
    panel.set_ylim(bottom=0)


def name_in_legend(text: str) -> str:
    """A name of the user's own: on one line, and not left out as those are that begin with an underscore."""
    shown = printable(text)
    return f" {shown}" if shown.startswith("_") else shown


def plot(name: str, title: str, figure: Any) -> Plot:
    """A figure of matplotlib in both forms."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": "seqferry"})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "seqferry"})
    text = svg.getvalue()
    # What stands before the element is for a file of its own.
    return Plot(name, title, png.getvalue(), text[text.index("<svg") :])
