"""Counts and failures of a run of pytest, written where ``tools/run_tests.py`` reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from _pytest.terminal import TerminalReporter


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Writes ``{passed, skipped, failures: [[name, text], ...]}``; a test that fails and errors is one failure."""
    file = os.environ.get("SEQFERRY_TEST_FAILURES")
    if file is None:
        return
    failures: dict[str, str] = {}
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        failures.setdefault(report.nodeid, report.longreprtext)
    counts = {word: len(terminalreporter.getreports(word)) for word in ("passed", "skipped")}
    Path(file).write_text(json.dumps({**counts, "failures": list(failures.items())}))
