"""The whole result as one document of plain values: what the JSON file holds and all other forms are made from.

``docs/operate/bench-transfer.md`` describes its fields. It holds no secret: the endpoint, the bucket and names of
methods only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from seqferry.bench import baselines, datasync, recommend, uses
from seqferry.bench.machine import conditions
from seqferry.bench.recommend import Series
from seqferry.bench.spread import Spread
from seqferry.bench.storage import Acceleration, BenchPrefix
from seqferry.bench.transfer import MeasuredRun, Outcome, Plan

SCHEMA: Final = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""


def document(
    plan: Plan,
    place: BenchPrefix,
    acceleration: Acceleration | None,
    left_out: Sequence[str],
    outcome: Outcome,
    baseline: baselines.Baseline | None = None,
) -> dict[str, Any]:
    """JSON values only."""
    parameters = plan.parameters
    series = make_series(plan, outcome.runs)
    results = [_series(each) for each in series]
    baselines.compare(results, baseline)
    return {
        "schema": SCHEMA,
        **conditions(outcome.load_before, outcome.load_after),
        "place": {
            "bucket": place.bucket,
            "prefix": place.prefix,
            "endpoint_url": place.endpoint_url,
            "region": place.region,
        },
        "seed": parameters.seed,
        "asked": {
            "workloads": [
                {"name": each.name, "files": each.files, "size": each.size, "bytes": each.total}
                for each in parameters.workloads
            ],
            "directions": list(parameters.directions),
            "threads": list(parameters.threads),
            "threads_up": list(parameters.numbers("upload")),
            "threads_down": list(parameters.numbers("download")),
            "part_sizes": list(parameters.part_sizes),
            "warm_up": parameters.warm_up,
            "repetitions": parameters.repetitions,
        },
        "methods": [
            {"name": found.method.name, "what": found.method.what, "version": found.version} for found in plan.methods
        ],
        "left_out": list(left_out),
        "acceleration": acceleration.why if acceleration else None,
        "interrupted": outcome.interrupted,
        "stopped_by": outcome.error.message if outcome.error else None,
        "left": outcome.left,
        "runs": [run_facts(run) for run in outcome.runs],
        "results": results,
        "standard": baselines.STANDARDS,
        "streams": baselines.streams(results),
        "baseline": None if baseline is None else baseline.facts(),
        "rule": recommend.RULE,
        "recommendations": [asdict(each) for each in recommend.advise(series)],
        "by_use": [asdict(each) for each in uses.advise(results)],
        "modelled": [asdict(each) for workload in parameters.workloads for each in datasync.model(workload)],
    }


def make_series(plan: Plan, runs: Sequence[MeasuredRun]) -> list[Series]:
    """Runs of the same work by the same variant put together, in the order of the plan."""
    found: list[Series] = []
    for workload in plan.parameters.workloads:
        for direction in plan.parameters.directions:
            for _, variant in plan.variants_of(direction):
                own = [
                    run for run in runs if (run.workload, run.direction, run.variant) == (workload, direction, variant)
                ]
                if not own:
                    continue
                costs = [run.cost for run in own if run.error is None and run.cost is not None]
                found.append(
                    Series(
                        workload=workload,
                        direction=direction,
                        label=variant.label,
                        method=variant.method,
                        threads=variant.threads,
                        part_size=variant.part_size,
                        failed=sum(run.error is not None for run in own),
                        speed=Spread.of([run.speed for run in own if run.speed is not None]),
                        wall_s=Spread.of([cost.wall_s for cost in costs]),
                        cpu_s=Spread.of([cost.cpu_s for cost in costs]),
                        cpu_per_gib=Spread.of([run.cpu_per_gib for run in own if run.cpu_per_gib is not None]),
                        peak_bytes=Spread.of([cost.peak_bytes for cost in costs if cost.peak_bytes is not None]),
                        on_disk_s=Spread.of([run.on_disk_s for run in own if run.on_disk_s is not None]),
                    )
                )
    return found


def run_facts(run: MeasuredRun) -> dict[str, Any]:
    """One run, as the document and the event ``run`` tell it."""
    cost = run.cost
    return {
        "workload": run.workload.name,
        "direction": run.direction,
        "method": run.variant.method,
        "threads": run.variant.threads,
        "part_size": run.variant.part_size,
        "round": run.round,
        "place": run.place,
        "bytes": run.workload.total,
        "verified": run.error is None,
        "error": run.error,
        "mismatch": run.mismatch,
        "wall_s": cost.wall_s if cost else None,
        "on_disk_s": run.on_disk_s,
        "bytes_per_second": run.speed,
        "cpu_s": cost.cpu_s if cost else None,
        "cpu_s_per_gib": run.cpu_per_gib,
        "peak_bytes": cost.peak_bytes if cost else None,
        "load_before": run.load_before,
    }


def _series(each: Series) -> dict[str, Any]:
    def figures_of(spread: Spread | None) -> dict[str, float] | None:
        return None if spread is None else spread.facts

    return {
        "workload": each.workload.name,
        "direction": each.direction,
        "label": each.label,
        "method": each.method,
        "threads": each.threads,
        "part_size": each.part_size,
        "runs": each.speed.values if each.speed else 0,
        "failed": each.failed,
        "bytes_per_second": figures_of(each.speed),
        "wall_s": figures_of(each.wall_s),
        "on_disk_s": figures_of(each.on_disk_s),
        "cpu_s": figures_of(each.cpu_s),
        "cpu_s_per_gib": figures_of(each.cpu_per_gib),
        "peak_bytes": figures_of(each.peak_bytes),
    }
