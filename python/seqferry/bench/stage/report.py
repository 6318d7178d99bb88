"""The result of a comparison of staging methods: document of plain values, tables, and the verdict as text.

``docs/operate/bench-stage.md`` describes its fields. It holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from seqferry.bench.machine import conditions
from seqferry.bench.recommend import few_runs
from seqferry.bench.spread import FEWEST, facts_of, text_of
from seqferry.bench.stage import pipelines
from seqferry.bench.stage.comparison import StageOutcome, StagePlan, StageRun
from seqferry.bench.stage.staging import StagingMethod
from seqferry.bench.stage.staging_methods import STANDARD
from seqferry.model.formatting import count, duration, size

SCHEMA: Final = 1
_HEAD: Final = ("way", "time s", "CPU s", "peak MiB", "requests", "local disk", "runs", "called")
_MIB: Final = 2**20

Row = dict[str, Any]


def document(plan: StagePlan, outcome: StageOutcome) -> dict[str, Any]:
    """JSON values only."""
    parameters, place = plan.parameters, plan.source.place
    archive_bytes = outcome.archive_bytes or plan.archive_bytes
    results = [_result(plan, way, outcome.runs, archive_bytes) for way in plan.installed.ways]
    results = [each for each in results if each["runs"] or each["failed"]]
    return {
        "schema": SCHEMA,
        "kind": "stage",
        **conditions(outcome.load_before, outcome.load_after),
        "place": {"uri": plan.data.uri, "endpoint_url": place.endpoint_url, "region": place.region},
        "data": {
            "files": len(plan.data.files),
            "bytes": plan.data.total,
            "archive_bytes": archive_bytes,
            "files_read": len(plan.read),
        },
        "asked": {
            "ways": list(parameters.ways),
            "read_percent": parameters.read,
            "tasks": parameters.tasks,
            "warm_up": parameters.warm_up,
            "repetitions": parameters.repetitions,
        },
        "versions": plan.installed.versions,
        "left_out": outcome.left_out,
        "interrupted": outcome.interrupted,
        "stopped_by": outcome.error.message if outcome.error else None,
        "left": outcome.left,
        "runs": [run_facts(each) for each in outcome.runs],
        "results": results,
        "verdict": verdict(plan, results),
    }


def run_facts(run: StageRun) -> dict[str, Any]:
    """One run, as the document and the event ``run`` tell it."""
    cost = run.cost
    return {
        "way": run.way,
        "round": run.round,
        "error": run.error,
        "mismatch": run.mismatch,
        "wall_s": cost.wall_s if cost else None,
        "cpu_s": cost.cpu_s if cost else None,
        "peak_bytes": cost.peak_bytes if cost else None,
    }


def _result(plan: StagePlan, way: StagingMethod, runs: Sequence[StageRun], archive_bytes: int) -> Row:
    own = [run for run in runs if run.way == way.name]
    costs = [run.cost for run in own if run.error is None and run.cost is not None]
    return {
        "way": way.name,
        "what": way.what,
        "delivers": way.delivers,
        "runs": len(costs),
        "failed": sum(run.error is not None for run in own),
        "wall_s": facts_of([cost.wall_s for cost in costs]),
        "cpu_s": facts_of([cost.cpu_s for cost in costs]),
        "peak_bytes": facts_of([cost.peak_bytes for cost in costs if cost.peak_bytes is not None]),
        "requests": way.requests(plan.data, archive_bytes, plan.read),
        "local_bytes": way.local_bytes(plan.data, archive_bytes),
    }


def verdict(plan: StagePlan, results: Sequence[Row]) -> list[str]:
    """A sentence for each use: all files are read, a part of them in place, all by a task of a pipeline."""
    files = _rank(results, "files")
    in_place = _rank(results, "in place")
    tasks, said = plan.parameters.tasks, list[str]()
    in_task = _rank(results, "task")
    standard = _standard(files, STANDARD)
    if files and standard is not None:
        said.append(f"{plan.data}, all read: {_take(files, standard, tasks)}")
    if in_place:
        share = f"{plan.data}, {len(plan.read):,} of them read ({plan.parameters.read:g} %)"
        said.append(f"{share}: {_take(sorted([*in_place, *files], key=_median), standard or in_place[0], tasks)}")
    if in_task:
        of_task = _standard(in_task, pipelines.STANDARD) or in_task[-1]
        said.append(f"{plan.data}, all read by a task of Nextflow: {_take(in_task, of_task, tasks)}")
    return said or ["No run succeeded: there is no verdict."]


def _rank(results: Sequence[Row], delivers: str) -> list[Row]:
    return sorted((each for each in results if each["delivers"] == delivers and each["wall_s"]), key=_median)


def _standard(ranked: Sequence[Row], name: str) -> Row | None:
    """The method that savings are compared with: the usual one, else the slowest."""
    return next((each for each in ranked if each["way"] == name), ranked[-1] if ranked else None)


def _median(row: Row) -> float:
    return float(row["wall_s"]["median"])


def _take(ranked: Sequence[Row], standard: Row, tasks: int) -> str:
    best = ranked[0]
    fastest = f"{best['what']}, {duration(_median(best))}"
    if len(ranked) == 1:
        return f"{fastest}; there is nothing to compare it with."
    sure = [each for each in ranked if each["runs"] >= FEWEST]
    if best not in sure or len(sure) == 1:
        least = min(each["runs"] for each in ranked)
        return f"no verdict: {fastest}, was the fastest, and {few_runs(least)} (--repetitions {FEWEST})."
    # A method that failed in some rounds is not a baseline.
    ranked, standard = sure, standard if standard in sure else sure[-1]
    alike = [each for each in ranked[1:] if _overlap(best, each)]
    more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    if standard in alike:
        others = f"{alike[0]['what']}{more} do{'' if more else 'es'} not differ from it beyond the spread"
        return f"no verdict: {fastest}, was the fastest, and {others}. More --repetitions may tell."
    if alike:
        why = f"{alike[0]['what']}{more} do{'' if more else 'es'} not differ beyond the spread"
    else:
        why = f"{ranked[1]['what']} follows with {duration(_median(ranked[1]))}"
    return f"take {fastest}; {why}. {_saving(best, standard, tasks)}"


def _overlap(one: Row, other: Row) -> bool:
    return bool(one["wall_s"]["low"] <= other["wall_s"]["high"] and other["wall_s"]["low"] <= one["wall_s"]["high"])


def _saving(best: Row, standard: Row, tasks: int) -> str:
    """Savings of the best method against the usual one, for so many tasks."""
    if best is standard:
        return f"It is {standard['what']}, the usual way."
    seconds = (_median(standard) - _median(best)) * tasks
    found = [
        _change(seconds, duration(abs(seconds))),
        _change(standard["requests"] - best["requests"], "", tasks, "request"),
        _change(
            standard["local_bytes"] - best["local_bytes"],
            size(abs(standard["local_bytes"] - best["local_bytes"]) * tasks) + " of local disk",
        ),
    ]
    saves = [text for amount, text in found if amount > 0]
    costs = [text for amount, text in found if amount < 0]
    text = f"For {count(tasks, 'task')}, against {standard['what']}, it saves {_and(saves) if saves else 'nothing'}"
    return text + (f" and takes {_and(costs)} more." if costs else ".")


def _change(amount: float, text: str, tasks: int = 1, noun: str = "") -> tuple[float, str]:
    return amount, count(abs(round(amount)) * tasks, noun) if noun else text


def _and(texts: Sequence[str]) -> str:
    return " and ".join([*([", ".join(texts[:-1])] if len(texts) > 1 else []), texts[-1]])


def tables(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yields the name of a table, its head and its rows, the fastest first."""
    titles = (
        ("files", "all files in a folder"),
        ("archive", "one tar, as it is"),
        ("in place", f"{result['data']['files_read']:,} files read in place"),
        ("task", "all files to a task of Nextflow, with Nextflow's start"),
    )
    for delivers, title in titles:
        own = [each for each in result["results"] if each["delivers"] == delivers]
        own.sort(key=lambda each: each["wall_s"]["median"] if each["wall_s"] else float("inf"))
        if own:
            yield title, _HEAD, [_cells(each) for each in own]


def _cells(each: Row) -> tuple[str, ...]:
    return (
        each["way"],
        text_of(each["wall_s"], 1, 2),
        text_of(each["cpu_s"], 1, 2),
        "-" if each["peak_bytes"] is None else f"{each['peak_bytes']['median'] / _MIB:,.0f}",
        f"{each['requests']:,}",
        size(each["local_bytes"]),
        f"{each['runs']}" + (f", {each['failed']} failed" if each["failed"] else ""),
        each["what"],
    )
