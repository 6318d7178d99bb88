"""The report of ways to stage as one HTML file that needs nothing else, and its plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from seqferry.bench import html, plots
from seqferry.bench.plots import Plot
from seqferry.bench.stage import report

NAMES: Final = ("stage-",)
"""Beginnings of the names of plots."""
_EXPLAINED: Final = (
    "Each run is a shell with the command in it, started anew, into an empty folder; mounting and unmounting count. "
    "What arrived was compared with what is stored, byte for byte, after the measured time; what is read in place was "
    "summed within it. Requests are computed from the sizes. Figures are medians, with the lowest and the highest run."
)


_OURS: Final = ("seqferry", "unpack", "mount", "nextflow-seqferry", "nextflow-unpack")
"""Beginnings of the names of ways that use Seqferry."""


def page(result: dict[str, Any], drawn: Sequence[Plot]) -> str:
    """The whole document."""
    body = [f"<header><h1>Ways to stage compared</h1>{html.items(result['verdict'])}"]
    if result["interrupted"] or result["stopped_by"]:
        body.append(f"<p class='error'>It did not reach its end: {escape(result['stopped_by'] or 'interrupted')}</p>")
    body.append("</header><main>")
    if drawn:
        body.append(f"<section id='plots'><h2>Plots</h2>{html.figures(drawn)}</section>")
    parts = [
        f"<h3>{escape(title)}</h3>{html.table(head, rows, marked=_OURS, last_is_text=True)}"
        for title, head, rows in report.tables(result)
    ]
    body.append(f"<section id='results'><h2>All figures</h2>{''.join(parts)}</section>")
    facts = f"{_facts(result)}<p class='dim'>{_EXPLAINED}</p>{html.items(result['left_out'], 'dim')}"
    body.append(f"<section id='measured'><h2>What was measured</h2>{facts}</section>")
    failed = [f"{each['way']}: {each['error']}" for each in result["runs"] if each["error"]]
    if failed:
        body.append(f"<section id='failed'><h2>Runs that failed</h2>{html.items(failed, 'error')}</section>")
    return html.document("Seqferry: ways to stage compared", [*body, "</main>"])


def _is_peer(way: str) -> bool:
    return not way.startswith(_OURS)


def _facts(result: dict[str, Any]) -> str:
    place, machine, load, data = result["place"], result["machine"], result["load"], result["data"]
    return html.pairs(
        [
            ("when", result["at"]),
            ("what", f"{place['uri']}: {data['files']:,} files, {data['bytes']:,} bytes"),
            ("where", f"{place['endpoint_url'] or 'AWS'}, {place['region']}"),
            ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB"),
            ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core"),
            *((f"{name}", version) for name, version in result["versions"].items()),
        ]
    )


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
