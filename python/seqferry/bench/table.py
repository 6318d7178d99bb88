"""The figures as rows of text: what the terminal shows, and the page as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from seqferry.bench.baselines import STANDARDS, Case, by_case
from seqferry.bench.spread import text_of
from seqferry.model.formatting import size

_MIB: Final = 2**20
_HEAD: Final = ("method", "MiB/s", "time s", "on disk s", "CPU s", "CPU s/GiB", "peak MiB", "runs")

Rows = list[tuple[str, ...]]


def cases(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """Yields, for each workload and direction, its name, the head of its table, and the rows."""
    with_earlier = result["baseline"] is not None
    for (workload, direction), own in by_case(result["results"]):
        head = (*_HEAD, f"against {STANDARDS[direction]}", *(("against earlier",) if with_earlier else ()), "ahead of")
        own.sort(key=lambda each: -(each["bytes_per_second"] or {"median": 0})["median"])
        standard = next((each["bytes_per_second"] for each in own if each["label"] == STANDARDS[direction]), None)
        rows = [_row(each, len(own), with_earlier=with_earlier) for each in own]
        rows += _earlier(result, (workload, direction), standard, len(head))
        yield f"{direction}, {workload}", head, rows


def streams(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """Yields, for each workload and direction with several numbers of streams, the percent increase by number."""
    for (workload, direction), own in by_case(result["streams"]):
        numbers = sorted({each["threads"] for each in own})
        rows: Rows = []
        for method, part_size in dict.fromkeys((each["method"], each["part_size"]) for each in own):
            increases = {
                each["threads"]: _percent(each["increase_percent"])
                for each in own
                if (each["method"], each["part_size"]) == (method, part_size)
            }
            label = method if part_size is None else f"{method}, {part_size / _MIB:g} MiB parts"
            rows.append((label, *(increases.get(number, "-") for number in numbers)))
        least = own[0]["against_threads"]
        title = f"{direction}, {workload}: percent increase by number of streams, against {least}"
        yield title, ("method", *(str(number) for number in numbers)), rows


def _earlier(result: dict[str, Any], case: Case, standard: dict[str, float] | None, width: int) -> Rows:
    """Rows that were measured before: the best of an earlier report."""
    speed = standard["median"] if standard else None
    workload, _ = case
    size_of = {each["name"]: each["bytes"] for each in result["asked"]["workloads"]}
    best = [
        each for each in (result["baseline"] or {"best": ()})["best"] if (each["workload"], each["direction"]) == case
    ]
    return [
        (
            f"previous best: {each['label']} ({result['baseline']['at'][:10]})",
            f"{each['bytes_per_second'] / _MIB:,.1f}",
            f"{size_of[workload] / each['bytes_per_second']:,.2f}",
            *("-",) * (len(_HEAD) - 3),
            _percent(100 * (each["bytes_per_second"] / speed - 1) if speed else None),
            *("-",) * (width - len(_HEAD) - 1),
        )
        for each in best
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+,.1f} %"


def _ahead(each: dict[str, Any], of: int) -> str:
    names = each["ahead_of"]
    if not names:
        return "-"
    if len(names) == of - 1:
        return "all others" if of > 2 else names[0]
    return names[0] if len(names) == 1 else f"{len(names)} of {of - 1}"


def modelled_rows(result: dict[str, Any]) -> tuple[Sequence[str], Rows]:
    """Head and rows of the table of DataSync's modelled prices and rates."""
    rows = [
        (
            f"{each['mode']} ({each['label']})",
            each["workload"],
            f"${each['dollars']:.2f}",
            f"at best {size(each['bytes_per_second_at_best'])}/s",
            f"at best {each['seconds_at_best']:,.2f} s",
        )
        for each in result["modelled"]
    ]
    return ("service", "workload", "price", "rate", "time"), rows


def _row(each: dict[str, Any], of: int, *, with_earlier: bool) -> tuple[str, ...]:
    runs = f"{each['runs']}" + (f", {each['failed']} failed" if each["failed"] else "")
    return (
        each["label"],
        text_of(each["bytes_per_second"], _MIB, 1 if (each["bytes_per_second"] or {"low": 0})["low"] >= _MIB else 3),
        text_of(each["wall_s"], 1, 2),
        text_of(each["on_disk_s"], 1, 2),
        text_of(each["cpu_s"], 1, 2),
        _middle(each["cpu_s_per_gib"], 1, 2),
        _middle(each["peak_bytes"], _MIB, 0),
        runs,
        _percent(each["against_standard_percent"]),
        *((_percent(each["against_baseline_percent"]),) if with_earlier else ()),
        _ahead(each, of),
    )


def _middle(found: dict[str, float] | None, unit: float, digits: int) -> str:
    return "-" if found is None else f"{found['median'] / unit:,.{digits}f}"
