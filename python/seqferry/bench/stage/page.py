"""The report of ways to stage as one HTML file that needs nothing else, and its plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from seqferry.bench import plots
from seqferry.bench.machine import condition_rows
from seqferry.bench.plots import Plot
from seqferry.bench.stage import report
from seqferry.templates import environment

NAMES: Final = ("stage-",)
"""Beginnings of the names of plots."""
_OURS: Final = ("seqferry", "unpack", "mount", "nextflow-seqferry", "nextflow-unpack")
"""Beginnings of the names of ways that use Seqferry."""


def page(result: dict[str, Any], drawn: Sequence[Plot]) -> str:
    """The whole document."""
    return environment.render(
        "bench_stage.html",
        style="bench.css",
        title="Seqferry: ways to stage compared",
        result=result,
        ours=_OURS,
        why=result["stopped_by"] or ("interrupted" if result["interrupted"] else None),
        facts=_facts(result),
        plots=drawn,
        results=report.tables(result),
        failed=[f"{each['way']}: {each['error']}" for each in result["runs"] if each["error"]],
    )


def _is_peer(way: str) -> bool:
    return not way.startswith(_OURS)


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    place, data = result["place"], result["data"]
    return [
        *condition_rows(result),
        ("what", f"{place['uri']}: {data['files']:,} files, {data['bytes']:,} bytes"),
        ("where", f"{place['endpoint_url'] or 'AWS'}, {place['region']}"),
        *result["versions"].items(),
    ]


def draw(result: dict[str, Any]) -> tuple[list[Plot], str | None]:
    """Time by way, and a line for the user where matplotlib is not installed."""
    return plots.make_plots(lambda figures: _plots(figures, result))


def _plots(figures: Any, result: dict[str, Any]) -> Iterable[Plot]:
    rows: list[dict[str, Any]] = [
        {
            "workload": {"files": "all files", "archive": "one tar", "in place": "in place", "task": "Nextflow"}[
                each["delivers"]
            ],
            "method": "peer" if _is_peer(each["way"]) else "seqferry",
            "label": each["what"],
            "wall_s": each["wall_s"],
        }
        for each in result["results"]
        if each["wall_s"]
    ]
    rows.sort(key=lambda each: each["wall_s"]["median"])
    if rows:
        title = "Time by way"
        yield plots.plot(
            "stage-time", title, plots.ranges(figures, rows, "wall_s", 1, "seconds, less is better", title)
        )
