"""The result as one document of plain values, which the JSON file holds and all other forms are made from.

``docs/operate/bench-gateway.md`` describes its fields.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from seqferry.bench.gateway import advice, tools
from seqferry.bench.gateway.comparison import GatewayOutcome, GatewayPlan, GatewayRun
from seqferry.bench.gateway.experiments import FILES, JOBS, Experiment
from seqferry.bench.machine import conditions
from seqferry.bench.spread import facts_of, text_of

KIND: Final = "gateway"
SCHEMA: Final = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""
_FENCE: Final = 1.5
_FEWEST: Final = 4
"""Runs without which there are no quartiles to speak of."""
_MIB: Final = 2**20


def document(plan: GatewayPlan, outcome: GatewayOutcome) -> dict[str, Any]:
    """JSON values only."""
    results = [
        _result(experiment, folder.name, outcome.runs) for experiment in plan.experiments for folder in plan.folders
    ]
    found = advice.advise(results)
    return {
        "schema": SCHEMA,
        "kind": KIND,
        **conditions(outcome.load_before, outcome.load_after),
        "asked": asdict(plan.parameters),
        "programs": plan.programs.versions,
        "folders": [
            {
                "name": folder.name,
                "path": str(folder.path),
                "file_system": folder.file_system,
                "source": folder.source,
                "takes_direct": folder.takes_direct,
            }
            for folder in plan.folders
        ],
        "fio": {"direct": plan.direct, "jobs": JOBS, "files": FILES, "depth": 4, "block": 4096, "reads_percent": 25},
        "left_out": [] if plan.programs.fio is not None else [tools.FIO_MISSING],
        "interrupted": outcome.interrupted,
        "left": outcome.left,
        "runs": [run_facts(run) for run in outcome.runs],
        "results": results,
        "rule": advice.RULE,
        "recommendations": [asdict(each) for each in found],
        "recommendation": advice.sentence(found),
    }


def run_facts(run: GatewayRun) -> dict[str, Any]:
    """One run, as the document and the event ``run`` tell it."""
    figures = run.figures
    return {
        "experiment": run.experiment.name,
        "folder": run.folder,
        "round": run.round,
        "place": run.place,
        "bytes": None if figures is None else figures.bytes,
        "seconds": None if figures is None else figures.seconds,
        "bytes_per_second": run.speed,
        "operations_per_second": None if figures is None else figures.operations_per_second,
        "error": run.error,
        "unsupported": run.unsupported,
        "load_before": run.load_before,
    }


def _result(experiment: Experiment, folder: str, runs: Sequence[GatewayRun]) -> dict[str, Any]:
    own = [run for run in runs if (run.experiment, run.folder) == (experiment, folder)]
    speeds = [run.speed for run in own if run.speed is not None]
    operations = [
        run.figures.operations_per_second
        for run in own
        if run.figures is not None and run.figures.operations_per_second is not None
    ]
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "kind": experiment.kind,
        "bytes": experiment.bytes,
        "folder": folder,
        "runs": len(speeds),
        "failed": sum(run.error is not None and not run.unsupported for run in own),
        "unsupported": next((run.error for run in own if run.unsupported), None),
        "bytes_per_second": facts_of(speeds),
        "operations_per_second": facts_of(operations),
        "each": speeds,
        "outliers": outliers(speeds),
    }


def outliers(values: Sequence[float]) -> list[float]:
    """Values beyond 1.5 times the distance of the quartiles. They stay in the figures."""
    if len(values) < _FEWEST:
        return []
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    reach = _FENCE * (high - low)
    return [value for value in values if not low - reach <= value <= high + reach]


HEAD: Final = ("folder", "MiB/s", "operations/s", "against the first", "runs", "outliers")


def tables(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yields, for each experiment, its title, the head of its table and the rows."""
    for name in dict.fromkeys(each["experiment"] for each in result["results"]):
        own = [each for each in result["results"] if each["experiment"] == name]
        first = own[0]["bytes_per_second"]
        yield own[0]["title"], HEAD, [_row(each, first) for each in own]


def _row(each: dict[str, Any], first: dict[str, float] | None) -> tuple[str, ...]:
    speed, operations = each["bytes_per_second"], each["operations_per_second"]
    against = "-"
    if speed is not None and first is not None:
        against = f"{100 * (speed['median'] / first['median'] - 1):+.0f} %" if speed is not first else "-"
    failed = f", {each['failed']} failed" if each["failed"] else ""
    return (
        each["folder"],
        each["unsupported"] or text_of(speed, _MIB, 1),
        text_of(operations, 1, 0),
        against,
        f"{each['runs']}{failed}",
        ", ".join(f"{value / _MIB:,.1f}" for value in each["outliers"]) or "-",
    )
