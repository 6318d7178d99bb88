"""Parts of pages that need nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from seqferry.bench.plots import Plot

STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid #8885; white-space: nowrap; }
th.n, td.n { text-align: right; }
td.t { white-space: normal; min-width: 12rem; }
tr.ours td { font-weight: 600; background: #cc550022; }
.wide { overflow-x: auto; }
.dim { opacity: .75; } .error { color: #b00020; }
@media (prefers-color-scheme: dark) { .error { color: #ff8a80; } }
figure { margin: 0; }
.plot { background: #fff; padding: .5rem; border-radius: 4px; margin: 1rem 0; }
.plot svg { width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; }
@media print { body { max-width: none; } }
"""


_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)}
"""Characters that no page may hold, which names of files can; written visibly."""


def document(title: str, body: Iterable[str]) -> str:
    """The whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(body).translate(_CONTROLS)
        + "\n</body></html>\n"
    )


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """Names with their values."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows) + "</dl>"


def items(lines: Iterable[str], style: str = "") -> str:
    """A list; empty without lines."""
    found = "".join(f"<li class='{style}'>{escape(line)}</li>" for line in lines)
    return f"<ul>{found}</ul>" if found else ""


def figures(plots: Sequence[Plot]) -> str:
    """All plots, one below the other."""
    return "".join(f"<figure><div class='plot'>{plot.svg}</div></figure>" for plot in plots)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: int = 1,
    marked: str | tuple[str, ...] = (),
    last_is_text: bool = False,
) -> str:
    """A table whose first columns hold words, and the others numbers; rows that begin with ``marked`` stand out."""

    def kind(index: int, cells: Sequence[str]) -> str:
        if last_is_text and index == len(cells) - 1:
            return " class=t"
        return " class=n" if index >= words else ""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{kind(index, cells)}>{escape(cell)}</{tag}>" for index, cell in enumerate(cells))

    def style(row: Sequence[str]) -> str:
        return " class=ours" if row[0].startswith(marked) else ""

    body = "".join(f"<tr{style(row)}>{line(row, 'td')}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
