"""The report of transfer methods as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from seqferry.bench import html, table
from seqferry.bench.plots import Plot

_OURS: Final = "seqferry"
_EXPLAINED: Final = (
    "Each run is a process of its own, started anew, Python's start included where the method is written in it; "
    "the time is from its start to its end. What arrived was compared with what was sent, byte for byte, after that. "
    "CPU and memory are those of the client's processes. Figures are medians, with the lowest and the highest run."
)


def page(result: dict[str, Any], plots: Sequence[Plot]) -> str:
    """The whole document."""
    body = ["<header><h1>Transfer methods compared</h1>"]
    if result["interrupted"] or result["stopped_by"]:
        why = result["stopped_by"] or "interrupted"
        body.append(f"<p class='error'>It did not reach its end: {escape(why)}</p>")
    body.append("</header><main>")
    body.append(f"<section id='recommendations'><h2>What to take</h2>{_advice(result)}</section>")
    body.append(
        f"<section id='measured'><h2>What was measured</h2>{_facts(result)}<p class='dim'>{_EXPLAINED}</p></section>"
    )
    if plots:
        body.append(f"<section id='plots'><h2>Plots</h2>{html.figures(plots)}</section>")
    body.append(f"<section id='results'><h2>All figures</h2>{_results(result)}</section>")
    body.append(
        f"<section id='modelled'><h2>AWS DataSync: modelled, not measured</h2>{_render_modelled(result)}</section>"
    )
    body.append(f"<section id='methods'><h2>Methods</h2>{_methods(result)}</section>")
    failed = [each for each in result["runs"] if each["error"]]
    if failed:
        lines = (f"{each['workload']} {each['direction']}, {each['method']}: {each['error']}" for each in failed)
        body.append(f"<section id='failed'><h2>Runs that failed</h2>{html.items(lines, 'error')}</section>")
    return html.document("Seqferry: transfer methods compared", [*body, "</main>"])


def _facts(result: dict[str, Any]) -> str:
    place, machine, load = result["place"], result["machine"], result["load"]
    rows = [
        ("when", result["at"]),
        ("where", f"s3://{place['bucket']}, {place['endpoint_url'] or 'AWS'}, {place['region']}"),
        ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}"),
        ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core"),
        ("data", f"random, from seed {result['seed']}"),
    ]
    return html.pairs(rows)


def _advice(result: dict[str, Any]) -> str:
    cases = html.items(each["sentence"] for each in result["recommendations"])
    by_use = html.items(f"{each['text']}." for each in result["by_use"])
    uses = f"<h3>By use</h3>{by_use}" if by_use else ""
    return f"{cases}{uses}<p class='dim'>{escape(result['rule'])} The table tells what is ahead of what.</p>"


def _results(result: dict[str, Any]) -> str:
    parts: list[str] = []
    for case, head, rows in table.cases(result):
        parts.append(f"<h3>{escape(case)}</h3>{html.table(head, rows, marked=_OURS)}")
    for case, head, rows in table.streams(result):
        parts.append(f"<h3>{escape(case)}</h3>{html.table(head, rows, marked=_OURS)}")
    return "".join(parts)


def _render_modelled(result: dict[str, Any]) -> str:
    head, rows = table.modelled_rows(result)
    return (
        "<p class='dim'>Arithmetic from list prices and known rates; time for preparing and verifying, and S3's "
        f"requests, come on top.</p>{html.table(head, rows)}"
    )


def _methods(result: dict[str, Any]) -> str:
    rows = [(each["name"], each["version"], each["what"]) for each in result["methods"]]
    methods = html.table(("method", "version", "settings"), rows, words=3)
    left_out = [*result["left_out"], *([result["acceleration"]] if result["acceleration"] else [])]
    return methods + html.items(left_out, "dim")
