"""The report as one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from seqferry.bench import table
from seqferry.bench.plots import Plot

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid #8885; white-space: nowrap; }
th.n, td.n { text-align: right; }
.wide { overflow-x: auto; }
.dim { opacity: .75; } .error { color: #b00020; }
@media (prefers-color-scheme: dark) { .error { color: #ff8a80; } }
.plot { background: #fff; padding: .5rem; border-radius: 4px; margin: 1rem 0; }
.plot svg { width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; }
@media print { body { max-width: none; } }
"""
_EXPLAINED: Final = (
    "Each run is a process of its own, started anew, Python's start included where the method is written in it; "
    "the time is from its start to its end. What arrived was compared with what was sent, byte for byte, after that. "
    "CPU and memory are those of the client's processes. Figures are medians, with the lowest and the highest run."
)


def page(result: dict[str, Any], plots: Sequence[Plot]) -> str:
    """The whole document."""
    body = [f"<header><h1>Transfer methods compared</h1>{_facts(result)}<p class='dim'>{_EXPLAINED}</p>"]
    if result["interrupted"] or result["stopped_by"]:
        why = result["stopped_by"] or "interrupted"
        body.append(f"<p class='error'>It did not reach its end: {escape(why)}</p>")
    body.append("</header><main>")
    body.append(f"<section id='recommendations'><h2>What the figures say</h2>{_advice(result)}</section>")
    drawn = "".join(f"<figure><div class='plot'>{plot.svg}</div></figure>" for plot in plots)
    if drawn:
        body.append(f"<section id='plots'><h2>Plots</h2>{drawn}</section>")
    body.append(f"<section id='results'><h2>All figures</h2>{_results(result)}</section>")
    body.append(f"<section id='modelled'><h2>AWS DataSync: modelled, not measured</h2>{_modelled(result)}</section>")
    body.append(f"<section id='methods'><h2>Methods</h2>{_methods(result)}</section>")
    failed = [each for each in result["runs"] if each["error"]]
    if failed:
        lines = (f"{each['workload']} {each['direction']}, {each['method']}: {each['error']}" for each in failed)
        body.append(f"<section id='failed'><h2>Runs that failed</h2>{_list(lines, 'error')}</section>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Seqferry: transfer methods compared</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _facts(result: dict[str, Any]) -> str:
    place, machine, load = result["place"], result["machine"], result["load"]
    rows = [
        ("when", result["at"]),
        ("where", f"s3://{place['bucket']}, {place['endpoint_url'] or 'AWS'}, {place['region']}"),
        ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}"),
        ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core"),
        ("data", f"random, from seed {result['seed']}"),
    ]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(told)}</dd>" for name, told in rows) + "</dl>"


def _advice(result: dict[str, Any]) -> str:
    lines: list[str] = []
    for each in result["recommendations"]:
        case = f"<b>{escape(each['direction'])}, {escape(each['workload'])}</b>"
        lines.append(f"<li>{case}: {escape(each['speed_text'])}. {escape(_sentence(each['cpu_text']))}.</li>")
    return f"<ul>{''.join(lines)}</ul><p class='dim'>{escape(result['rule'])}</p>"


def _sentence(text: str) -> str:
    return f"CPU: {text}"


def _results(result: dict[str, Any]) -> str:
    parts: list[str] = []
    for case, head, rows in table.cases(result):
        parts.append(f"<h3>{escape(case)}</h3>{_table(head, rows)}")
    return "".join(parts)


def _modelled(result: dict[str, Any]) -> str:
    head, rows = table.modelled(result)
    return (
        "<p class='dim'>Arithmetic from list prices and known rates; time for preparing and verifying, and S3's "
        f"requests, come on top.</p>{_table(head, rows)}"
    )


def _methods(result: dict[str, Any]) -> str:
    rows = [(each["name"], each["version"], each["what"]) for each in result["methods"]]
    told = _table(("method", "version", "settings"), rows, numeric=False)
    left_out = [*result["left_out"], *([result["acceleration"]] if result["acceleration"] else [])]
    return told + _list(left_out, "dim")


def _list(lines: Iterable[str], style: str) -> str:
    items = "".join(f"<li class='{style}'>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: bool = True) -> str:
    """All columns but the first are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if numeric and index else ''}>{escape(cell)}</{tag}>"
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
