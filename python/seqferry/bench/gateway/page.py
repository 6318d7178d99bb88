"""The report of a comparison of folders as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqferry.bench.gateway import report
from seqferry.bench.machine import condition_rows
from seqferry.bench.plots import Plot
from seqferry.templates import environment


def page(result: dict[str, Any], plots: Sequence[Plot]) -> str:
    """The whole document, which begins with what to do."""
    return environment.render(
        "bench_gateway.html",
        style="bench.css",
        title="Seqferry: folders compared",
        result=result,
        facts=_facts(result),
        plots=plots,
        results=report.tables(result),
        folders=[
            (each["name"], each["path"], each["file_system"], each["source"], "yes" if each["takes_direct"] else "no")
            for each in result["folders"]
        ],
        failed=[
            f"{each['experiment']}, {each['folder']}, round {each['round'] + 1}: {each['error']}"
            for each in result["runs"]
            if each["error"] and not each["unsupported"]
        ],
    )


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    fio = result["fio"]
    how = "past the page cache (O_DIRECT)" if fio["direct"] else "through the page cache: not all take O_DIRECT"
    return [
        *condition_rows(result),
        ("programs", ", ".join(result["programs"].values())),
        ("fio", f"4 KiB, depth {fio['depth']}, {fio['jobs']} jobs, {fio['files']} files each, {how}"),
    ]
