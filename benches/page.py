"""The page of ``make bench``: one HTML file that needs nothing else, readable in light and dark and on paper."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from figures import Figure, Result, number, ratios, spread
from plots import COLOURS, Mark, Strip, ratio_plot, strip
from report import BASE, THIS, ComparedFigure, Report, Section

_STYLE: Final = Path(__file__).with_name("page.css").read_text() + "".join(
    f".dot.c{n} {{ fill: var(--c{n}); }} .mark.c{n} circle {{ fill: var(--c{n}); }} "
    f".mark.c{n} line {{ stroke: var(--c{n}); }} i.c{n} {{ background: var(--c{n}); }}\n"
    for n in range(COLOURS)
)

_WORD_COLOURS: Final = {"better": 2, "worse": 1, "different": 4, "within noise": 7}
_LABEL: Final[tuple[Callable[[ComparedFigure], str], ...]] = (
    lambda one: _first(one.group),
    lambda one: one.figure,
    lambda one: one.series,
)
_BUILD_NAMES: Final = {THIS: "new", BASE: "old"}


_LEGEND: Final = (
    "In the plots each dot is one value (one round, unless the plot says otherwise) and the bar is the median. At the "
    "right stand median [lowest..highest] and, where there is a baseline, how many times its median."
)
_QUICK: Final = "A quick run: small sizes, which show that the benches work and little else."


def page(report: Report) -> str:
    """The whole document."""
    two = len(report.builds) > 1
    title = "Seqferry: two builds compared" if two else "Seqferry: benches"
    links = [f'<a href="#{one.bench.name}">{escape(one.bench.title)}</a>' for one in report.sections]
    body = [f"<header><h1>{title}</h1>"]
    if report.quick:
        body.append(f'<p class="error">{_QUICK}</p>')
    body += [_facts(report), f'<p class="dim">{_LEGEND}</p>', f"<nav>{' · '.join(links)}</nav></header>", "<main>"]
    if two:
        body.append(_verdicts(report))
    body += [_bench(section, two=two) for section in report.sections]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>\n{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</main>\n</body></html>\n"
    )


def _facts(report: Report) -> str:
    machine, load = report.machine, report.load
    peers = [_version(name, version) for name, version in report.versions.items() if name != "seqferry"]
    rows = [
        ("when", report.at),
        ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}"),
        ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core, ours included"),
    ]
    for build in report.builds:
        name = f"{_BUILD_NAMES[build.name]} build" if len(report.builds) > 1 else "build"
        rows.append((name, f"{build.version}, commit {build.commit}"))
    rows += [("peers", ", ".join([*peers, f"Python {machine['python']}"])), ("command", report.command)]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows) + "</dl>"


def _version(name: str, version: str) -> str:
    return version if name.split()[0] in version.lower() else f"{name} {version}"


def _verdicts(report: Report) -> str:
    compared = [one for section in report.sections for one in section.compared()]
    words = [one.verdict.word for one in compared if one.verdict]
    counts = ", ".join(f"{words.count(word)} {word}" for word in _WORD_COLOURS if word in words) or "nothing to compare"
    parts = [f'<section id="verdicts"><h2>New against old</h2><p><b>{counts}.</b> {escape(report.rule or "")}</p>']
    for section in report.sections:
        rows = section.compared()
        if not rows:
            continue
        parts.append(f"<h3>{escape(section.bench.title)}{_badge(section)}</h3>{_verdict_table(rows)}")
    return "".join(parts) + "</section>"


def _verdict_table(rows: Sequence[ComparedFigure]) -> str:
    cells: list[Sequence[str]] = []
    for one in rows:
        what = [escape(text) for text in (one.group, one.figure, one.series)]
        found = one.verdict
        if found is None:
            cells.append((*what, "-", "-", "no ratio: a side holds zero"))
            continue
        word = f'<span class="{found.word.split()[0]}">{found.word}</span>' + (f" ({found.why})" if found.why else "")
        cells.append((*what, _ratio(found.ratio), f"{_ratio(found.low)}..{_ratio(found.high)}", word))
    return _table(("work", "figure", "series", "new / old", "interval", "verdict"), cells, numeric={3, 4})


def _bench(section: Section, *, two: bool) -> str:
    bench = section.bench
    parts = [
        f'<section id="{bench.name}"><h2>{escape(bench.title)}{_badge(section)}</h2>',
        f"<p>{_code(bench.proves)}</p><p class='dim'><b>What it cannot show:</b> {_code(bench.cannot)}</p>",
        *(f'<p class="error">Failed: {escape(line)}</p>' for line in section.errors),
        *(f'<p class="dim">Left out: {escape(line)}</p>' for line in section.missing),
    ]
    if section.simulated and section.model:
        parts.append(
            '<div class="simulated"><b>Simulated.</b> What S3 does here follows from this model '
            "(<code>docs/develop/simulator.md</code>), not from AWS:"
            f'<div class="model">{_model(section.model)}</div></div>'
        )
    if two:
        parts.append(_compared_plot(section))
    parts += [_ratios(result) for build, result in section.results.items() if build == THIS and not two]
    groups = dict.fromkeys(figure.group for result in section.results.values() for figure in result.figures)
    for group in groups:
        parts.append(f"<h3>{escape(group)}</h3>")
        parts += _figures(section, group, two=two)
    parts.append(_attempts(section))
    return "".join(parts) + "</section>"


def _badge(section: Section) -> str:
    return ' <span class="badge">SIMULATED</span>' if section.simulated else ""


def _code(text: str) -> str:
    """Escaped, and what stands between backticks as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))


def _model(model: dict[str, Any]) -> str:
    def lines(fields: dict[str, Any], before: str) -> Iterable[str]:
        for name, value in fields.items():
            if isinstance(value, dict):
                yield from lines(value, f"{before}{name}.")
            else:
                yield f"<div>{escape(before + name)} = {escape(_plain(value))}</div>"

    return "".join(lines(model, ""))


def _plain(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _ratios(result: Result) -> str:
    """All ratios to the baseline side by side."""
    names = list(dict.fromkeys(name for figure in result.figures for name in figure.series))
    several = len({figure.group for figure in result.figures}) > 1
    rows: list[tuple[str, list[Mark]]] = []
    for figure in result.figures:
        found = ratios(figure)
        marks = [Mark(*found[name], name, names.index(name)) for name in found if min(found[name]) > 0]
        if marks:
            rows.append((f"{_first(figure.group)} · {figure.name}" if several else figure.name, marks))
    if not rows:
        return ""
    shown = [name for name in names if any(mark.name == name for _, marks in rows for mark in marks)]
    baseline = next(figure.baseline for figure in result.figures if figure.baseline)
    legend = "".join(f'<span><i class="c{names.index(name) % 8}"></i>{escape(name)}</span>' for name in shown)
    plot = ratio_plot(rows, f"times {baseline}, logarithmic scale", f"{result.bench}: ratios to {baseline}")
    return (
        f'<figure class="ratios"><h4>Ratios to {escape(baseline or "")}, side by side (dots: medians; bars: lowest to '
        f'highest round)</h4><div class="legend">{legend}</div>{plot}</figure>'
    )


def _compared_plot(section: Section) -> str:
    compared = section.compared()
    # A part of the label that all share says nothing.
    several = [len({part(one) for one in compared}) > 1 for part in _LABEL]
    rows: list[tuple[str, list[Mark]]] = []
    for one in compared:
        if found := one.verdict:
            mark = Mark(found.ratio, found.low, found.high, found.word, _WORD_COLOURS[found.word])
            words = [part(one) for part, more in zip(_LABEL, several, strict=True) if more]
            rows.append((" · ".join(words) or one.figure, [mark]))
    if not rows:
        return ""
    words = {mark.name for _, [mark] in rows}
    legend = "".join(
        f'<span><i class="c{colour}"></i>{word}</span>' for word, colour in _WORD_COLOURS.items() if word in words
    )
    plot = ratio_plot(rows, "new / old, logarithmic scale", f"{section.bench.name}: new against old")
    return (
        '<figure class="ratios"><h4>New / old (dots: median of all pairs of rounds; bars: interval)</h4>'
        f'<div class="legend">{legend}</div>{plot}</figure>'
    )


def _first(group: str) -> str:
    """The part before the sizes."""
    return group.split(":")[0]


def _figures(section: Section, group: str, *, two: bool) -> Iterable[str]:
    keys = dict.fromkeys(f.key for result in section.results.values() for f in result.figures if f.group == group)
    for key in keys:
        by_build = {
            build: figure for build, result in section.results.items() for figure in result.figures if figure.key == key
        }
        yield _figure(by_build, two=two)


def _figure(by_build: dict[str, Figure], *, two: bool) -> str:
    figure = next(iter(by_build.values()))
    rows: list[Strip] = []
    cells: list[Sequence[str]] = []
    names = dict.fromkeys(name for one in by_build.values() for name in one.series)
    for index, name in enumerate(names):
        for build, one in by_build.items():
            values = one.series.get(name)
            if not values:
                continue
            label = f"{name}, {_BUILD_NAMES[build]}" if two else name
            ratio = "" if two else _against(one, name)
            colour = (0 if build == THIS else 1) if two else index
            rows.append(Strip(label, values, f"{spread(values)}  {ratio}".strip(), colour))
            middle = number(statistics.median(values))
            cells.append((escape(label), str(len(values)), middle, number(min(values)), number(max(values)), ratio))
    good = {"lower": "lower is better", "higher": "higher is better", "": ""}[figure.better]
    facts = ", ".join(
        part for part in (figure.unit, good, "" if figure.dot == "round" else f"a dot is a {figure.dot}") if part
    )
    title = f"{figure.name}, {figure.group}"
    table = _table(("", "values", "median", "lowest", "highest", "ratio"), cells, numeric={1, 2, 3, 4, 5})
    return (
        f"<figure><h4>{escape(figure.name)} <span class='dim'>({escape(facts)})</span></h4>"
        f"{strip(rows, figure.unit, title)}<details><summary>as a table</summary>{table}</details></figure>"
    )


def _against(figure: Figure, name: str) -> str:
    if name == figure.baseline:
        return "×1" if len(figure.series) > 1 else ""
    found = ratios(figure).get(name)
    return f"×{_ratio(found[0])}" if found else ""


def _ratio(value: float) -> str:
    return f"{value:.3f}" if 0.1 <= value < 2 else number(value)


def _attempts(section: Section) -> str:
    if not section.attempts:
        return ""
    rows = [
        (
            _BUILD_NAMES[one.build],
            str(one.round + 1),
            f"{one.load_before:.1f}",
            f"{one.seconds:.0f}",
            escape(one.error or ""),
        )
        for one in section.attempts
    ]
    table = _table(("build", "round", "load before", "took s", ""), rows, numeric={1, 2, 3})
    options = " ".join(section.options)
    return (
        f"<details><summary>the runs: {len(section.attempts)}</summary>"
        f"<p><code>{escape(section.bench.script)} {escape(options)}</code></p>{table}</details>"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: set[int]) -> str:
    """``rows`` are HTML."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if index in numeric else f"<{tag}>{cell}</{tag}>"
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
