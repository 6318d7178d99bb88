"""The report of transfer methods as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from seqferry.bench import table
from seqferry.bench.machine import condition_rows
from seqferry.bench.plots import Plot
from seqferry.templates import environment

_OURS: Final = "seqferry"


def page(result: dict[str, Any], plots: Sequence[Plot]) -> str:
    """The whole document."""
    return environment.render(
        "bench_transfer.html",
        style="bench.css",
        title="Seqferry: transfer methods compared",
        result=result,
        ours=_OURS,
        why=result["stopped_by"] or ("interrupted" if result["interrupted"] else None),
        recommendations=[each["sentence"] for each in result["recommendations"]],
        by_use=[f"{each['text']}." for each in result["by_use"]],
        facts=_facts(result),
        plots=plots,
        results=[*table.cases(result), *table.streams(result)],
        modelled=table.modelled_rows(result),
        methods=[(each["name"], each["version"], each["what"]) for each in result["methods"]],
        left_out=[*result["left_out"], *([result["acceleration"]] if result["acceleration"] else [])],
        failed=[
            f"{each['workload']} {each['direction']}, {each['method']}: {each['error']}"
            for each in result["runs"]
            if each["error"]
        ],
    )


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    place = result["place"]
    return [
        *condition_rows(result),
        ("where", f"s3://{place['bucket']}, {place['endpoint_url'] or 'AWS'}, {place['region']}"),
        ("data", f"random, from seed {result['seed']}"),
    ]
