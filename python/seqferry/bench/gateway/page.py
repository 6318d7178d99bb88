"""The report of a comparison of folders as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from seqferry.bench import html
from seqferry.bench.gateway import report
from seqferry.bench.plots import Plot

_EXPLAINED: Final = (
    "Each run is one process of dd or fio. A round has one run for each folder; each round begins with another folder. "
    "Figures are medians, with the lowest and the highest run. dd measures until all data is on the disk (oflag=dsync: "
    "after each block); fio reports its own measurement."
)


def page(result: dict[str, Any], plots: Sequence[Plot]) -> str:
    """The whole document, which begins with what to do."""
    body = [
        "<header><h1>Folders compared: dd and fio</h1>",
        f"<p id='recommendation'><b>{escape(result['recommendation'])}</b></p>",
    ]
    if result["interrupted"]:
        body.append("<p class='error'>It did not reach its end: interrupted</p>")
    body.append(f"{_facts(result)}<p class='dim'>{_EXPLAINED} {escape(result['rule'])}</p></header><main>")
    if plots:
        body.append(f"<section id='plots'><h2>Charts</h2>{html.figures(plots)}</section>")
    parts = [f"<h3>{escape(title)}</h3>{html.table(head, rows)}" for title, head, rows in report.tables(result)]
    body.append(f"<section id='results'><h2>All figures</h2>{''.join(parts)}</section>")
    rows = [
        (each["name"], each["path"], each["file_system"], each["source"], "yes" if each["takes_direct"] else "no")
        for each in result["folders"]
    ]
    head = ("folder", "path", "file system", "on", "O_DIRECT")
    body.append(f"<section id='folders'><h2>Folders</h2>{html.table(head, rows, words=5)}</section>")
    body.append(html.items(result["left_out"], "dim"))
    failed = [each for each in result["runs"] if each["error"] and not each["unsupported"]]
    if failed:
        lines = (
            f"{each['experiment']}, {each['folder']}, round {each['round'] + 1}: {each['error']}" for each in failed
        )
        body.append(f"<section id='failed'><h2>Runs that failed</h2>{html.items(lines, 'error')}</section>")
    return html.document("Seqferry: folders compared", [*body, "</main>"])


def _facts(result: dict[str, Any]) -> str:
    machine, load, fio = result["machine"], result["load"], result["fio"]
    how = "past the page cache (O_DIRECT)" if fio["direct"] else "through the page cache: not all take O_DIRECT"
    rows = [
        ("when", result["at"]),
        ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}"),
        ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core"),
        ("programs", ", ".join(result["programs"].values())),
        ("fio", f"4 KiB, depth {fio['depth']}, {fio['jobs']} jobs, {fio['files']} files each, {how}"),
    ]
    return html.pairs(rows)
