"""Findings of checks, line by line as they are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from seqferry.cli import exits
from seqferry.cli.output import display, text

if TYPE_CHECKING:
    from seqferry.doctor.findings import Finding

_MARKS: Final = {"ok": "ok", "warning": "look", "problem": "BAD"}


def show_findings(findings: Iterable[Finding], *, as_json: bool, quiet: bool = False) -> int:
    """Print each finding; returns the exit code of the worst.

    Args:
        quiet: leave out what is as it should be.
    """
    worst = "ok"
    for finding in findings:
        worst = max(worst, finding.level, key=("ok", "warning", "problem").index)
        if as_json:
            display.emit("finding", **asdict(finding))
        elif not (quiet and finding.level == "ok"):
            print(f"{_MARKS[finding.level]:<5} {finding.topic:<20} {text.printable(finding.text)}")
            if finding.advice is not None:
                print(f"{'':<26} {text.printable(finding.advice)}")
    return exits.FAILED if worst == "problem" else exits.OK
