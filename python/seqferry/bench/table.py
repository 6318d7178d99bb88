"""The figures as rows of text: what the terminal shows, and the page as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from seqferry.model.formatting import size

_MIB: Final = 2**20
_HEAD: Final = ("method", "MiB/s", "time s", "on disk s", "CPU s", "CPU s/GiB", "peak MiB", "runs")

Rows = list[tuple[str, ...]]


def cases(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """Yields, for each workload and direction, its name, the head of its table, and the rows."""
    found = result["results"]
    for workload, direction in dict.fromkeys((each["workload"], each["direction"]) for each in found):
        rows = [
            _row(each)
            for each in sorted(
                (each for each in found if (each["workload"], each["direction"]) == (workload, direction)),
                key=lambda each: -(each["bytes_per_second"] or {"median": 0})["median"],
            )
        ]
        yield f"{direction}, {workload}", _HEAD, rows


def modelled(result: dict[str, Any]) -> tuple[Sequence[str], Rows]:
    """Head and rows of the table of DataSync's modelled prices and rates."""
    rows = [
        (
            f"{each['mode']} ({each['label']})",
            each["workload"],
            f"${each['dollars']:.2f}",
            f"at best {size(each['bytes_per_second_at_best'])}/s",
        )
        for each in result["modelled"]
    ]
    return ("service", "workload", "price", "rate"), rows


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    runs = f"{each['runs']}" + (f", {each['failed']} failed" if each["failed"] else "")
    return (
        each["label"],
        _spread(each["bytes_per_second"], _MIB, 1 if (each["bytes_per_second"] or {"low": 0})["low"] >= _MIB else 3),
        _spread(each["wall_s"], 1, 2),
        _spread(each["on_disk_s"], 1, 2),
        _spread(each["cpu_s"], 1, 2),
        _middle(each["cpu_s_per_gib"], 1, 2),
        _middle(each["peak_bytes"], _MIB, 0),
        runs,
    )


def _spread(found: dict[str, float] | None, unit: float, digits: int) -> str:
    if found is None:
        return "-"
    middle, low, high = (f"{found[name] / unit:,.{digits}f}" for name in ("median", "low", "high"))
    return middle if low == high else f"{middle} [{low}..{high}]"


def _middle(found: dict[str, float] | None, unit: float, digits: int) -> str:
    return "-" if found is None else f"{found['median'] / unit:,.{digits}f}"
