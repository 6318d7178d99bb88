"""The three charts of the post: small files by round, large files by size, and asynchronous work.

Runs are dots, medians are bars or lines, and whiskers reach from the lowest to the highest run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from seqferry.bench import plots
from seqferry.bench.plots import Plot

_MIB: Final = 2**20
_WIDTH: Final = 8.0
"""Inches."""
_HEIGHT: Final = 3.2
NAMES: Final = ("small-files", "large-files", "asynchronous")


def draw(result: dict[str, Any]) -> tuple[list[Plot], str | None]:
    """All charts that there are figures for, and a line for the user when there can be none."""
    return plots.make_plots(lambda figures: _all(figures, result))


def _all(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    of_kind = {kind: [each for each in result["results"] if each["kind"] == kind and each["runs"]] for kind in _TITLES}
    for name, (kind, title) in zip(NAMES, _TITLES.items(), strict=True):
        if of_kind[kind]:
            make = _by_round if kind == "small" else _bars
            yield plots.plot(name, title, make(figures, of_kind[kind], title))


_TITLES: Final = {
    "small": "Small files: speed of each run",
    "large": "Large files: median speed",
    "async": "Asynchronous work of fio: median speed",
}


def _by_round(figures: Any, rows: Sequence[dict[str, Any]], title: str) -> Any:
    """A panel for each experiment, a line of runs for each folder, dashed at its median."""
    names = list(dict.fromkeys(each["experiment"] for each in rows))
    folders = list(dict.fromkeys(each["folder"] for each in rows))
    figure = figures.Figure(figsize=(_WIDTH, _HEIGHT * len(names)), layout="constrained")
    figure.suptitle(title)
    for panel, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        own = [each for each in rows if each["experiment"] == name]
        for each in own:
            colour = plots.COLOURS[folders.index(each["folder"]) % len(plots.COLOURS)]
            speeds = [speed / _MIB for speed in each["each"]]
            turns = range(1, len(speeds) + 1)
            panel.plot(turns, speeds, marker="o", color=colour, label=plots.name_in_legend(each["folder"]))
            panel.axhline(each["bytes_per_second"]["median"] / _MIB, linestyle="--", color=colour, alpha=0.5)
        panel.set_title(own[0]["title"], loc="left", fontsize=9, fontweight="bold")
        panel.set_xticks(range(1, max(each["runs"] for each in own) + 1))
        panel.set_xlabel("run")
        panel.set_ylabel("MiB/s")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def _bars(figures: Any, rows: Sequence[dict[str, Any]], title: str) -> Any:
    """A group of bars for each experiment, a bar for each folder."""
    names = list(dict.fromkeys(each["experiment"] for each in rows))
    folders = list(dict.fromkeys(each["folder"] for each in rows))
    titles = {each["experiment"]: each["title"] for each in rows}
    width = 0.8 / len(folders)
    figure = figures.Figure(figsize=(_WIDTH, 0.5 * len(rows) + 1.5), layout="constrained")
    panel = figure.subplots(1, 1)
    figure.suptitle(title)
    for place, folder in enumerate(folders):
        own = [each for each in rows if each["folder"] == folder]
        spots = [names.index(each["experiment"]) + width * (place - (len(folders) - 1) / 2) for each in own]
        speeds = [each["bytes_per_second"] for each in own]
        below = [(speed["median"] - speed["low"]) / _MIB for speed in speeds]
        above = [(speed["high"] - speed["median"]) / _MIB for speed in speeds]
        panel.barh(
            spots,
            [speed["median"] / _MIB for speed in speeds],
            width * 0.9,
            xerr=[below, above],
            capsize=3,
            color=plots.COLOURS[place % len(plots.COLOURS)],
            label=plots.name_in_legend(folder),
        )
    panel.set_yticks(range(len(names)), [titles[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel("MiB/s; whiskers: lowest to highest run")
    panel.set_xlim(left=0)
    panel.grid(axis="x", alpha=0.3)
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure
