"""What was found, kept in ``results.json``, and the table made of it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, Final, TypedDict

from compat.checks import Finding, every_check
from compat.fleet import fleet
from support.run import ROOT

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = ROOT / "docs" / "guarantees" / "compatibility.md"
_BEGIN, _END = "<!-- made by make compat -->", "<!-- end of what make compat makes -->"
_IN_A_ROW: Final = 4


class Record(TypedDict):
    """One server."""

    version: str
    findings: dict[str, Any]


def record(version: str, findings: dict[str, Finding]) -> Record:
    return Record(
        version=version,
        findings={name: {"verdict": found.verdict, "note": found.note} for name, found in findings.items()},
    )


def load() -> dict[str, Any]:
    """What earlier runs have found, by server."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def save(results: dict[str, Any]) -> None:
    """Keeps the findings, and writes them into the page."""
    RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def page(text: str, results: dict[str, Any]) -> str:
    """The page with these findings."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table(results)}{_END}{after}"


def table(results: dict[str, Any]) -> str:
    """Tables of verdicts, some servers in each, and the reasons below them."""
    titles = {name: product.title for name, product in fleet().items()}
    names = [name for name in titles if name in results] + sorted(set(results) - titles.keys())
    lines: list[str] = []
    for first in range(0, len(names), _IN_A_ROW):
        here = names[first : first + _IN_A_ROW]
        heads = [f"{titles.get(name, name)} {results[name]['version']}".removesuffix(" ?") for name in here]
        lines += ["", "| | " + " | ".join(heads) + " |", "|---" * (len(here) + 1) + "|"]
        for check in every_check():
            cells = [results[name]["findings"].get(check.name, {}).get("verdict", "") for name in here]
            lines.append(f"| {check.title} | " + " | ".join(cells) + " |")
    for name in names:
        lines += ["", f"### {titles.get(name, name)}", ""]
        for check in every_check():
            found = results[name]["findings"].get(check.name)
            if found and found["note"]:
                text = f"- {check.title}: {found['verdict']}: {_text(found['note'])}."
                # Words stay whole: what looks like an address is one.
                lines += textwrap.wrap(text, 118, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n\n"


def _text(note: str) -> str:
    """As Markdown: what looks like a tag or a link is shown as it is."""
    return note.rstrip(".").replace("<", "&lt;").replace("[", "\\[").replace("|", "\\|")
