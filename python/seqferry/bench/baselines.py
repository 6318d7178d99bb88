"""Figures set against others: the standard method, an earlier report, one stream, and other methods.

All of it is derived from ``results`` of the document, medians unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from seqferry.bench.merged import read_report
from seqferry.bench.spread import FEWEST
from seqferry.model.errors import UsageError
from seqferry.model.formatting import printable

STANDARDS: Final = {"upload": "boto3", "download": "boto3", "copy": "boto3-copy"}
"""The method that percentages are against: the library as it is, with its defaults, and as S3Mirror copies with it."""

Row = dict[str, Any]
Case = tuple[str, str]
"""Name of a workload, and direction."""


class Baseline(NamedTuple):
    """The best of an earlier report, for each of its cases."""

    file: str
    at: str
    best: Mapping[Case, tuple[str, float]]
    """Label and bytes per second."""

    def facts(self) -> dict[str, Any]:
        """As values for JSON."""
        best = [
            {"workload": workload, "direction": direction, "label": label, "bytes_per_second": speed}
            for (workload, direction), (label, speed) in self.best.items()
        ]
        return {"file": self.file, "at": self.at, "best": best}


def read_baseline(file: Path, cases: Iterable[Case]) -> Baseline:
    """The best results of the report of another run, for these cases.

    Raises:
        UsageError: the file is no report of ``bench transfer``, or has none of the cases.
    """
    kind, report = read_report(file)
    named = printable(str(file))
    if kind != "transfer":
        raise UsageError(f"--baseline {named}: it is a report of bench {kind}, not of bench transfer.")
    best: dict[Case, tuple[str, float]] = {}
    for each in report["results"]:
        case = (str(each["workload"]), str(each["direction"]))
        speed = _speed(each)
        if speed is not None and speed > best.get(case, ("", 0.0))[1]:
            best[case] = (str(each["label"]), speed)
    wanted = {case: best[case] for case in cases if case in best}
    if not wanted:
        raise UsageError(f"--baseline {named}: it measures none of these workloads and directions with success.")
    return Baseline(str(file), str(report["at"]), wanted)


def compare(rows: Sequence[Row], baseline: Baseline | None) -> None:
    """Adds to each result what it is against the others of its case: percents, and the labels that it is ahead of."""
    for case, own in by_case(rows):
        standard = next((_speed(each) for each in own if each["label"] == STANDARDS[case[1]]), None)
        earlier = None if baseline is None else baseline.best.get(case, (None, None))[1]
        for each in own:
            each["against_standard_percent"] = _percent(_speed(each), standard)
            each["against_baseline_percent"] = _percent(_speed(each), earlier)
            each["ahead_of"] = [other["label"] for other in own if _is_ahead(each, other)]


def streams(rows: Sequence[Row]) -> list[Row]:
    """Percent increase of the speed by number of streams, against the least number of the same method and part size."""
    found: list[Row] = []
    for (workload, direction), own in by_case(rows):
        for kind in dict.fromkeys((each["method"], each["part_size"]) for each in own):
            measured = {
                each["threads"]: speed
                for each in own
                if (each["method"], each["part_size"]) == kind
                and each["threads"] is not None
                and (speed := _speed(each)) is not None
            }
            if len(measured) < 2:
                continue
            least = min(measured)
            found += [
                {
                    "workload": workload,
                    "direction": direction,
                    "method": kind[0],
                    "part_size": kind[1],
                    "threads": threads,
                    "against_threads": least,
                    "increase_percent": _percent(measured[threads], measured[least]),
                }
                for threads in sorted(measured)
            ]
    return found


def by_case(rows: Iterable[Row]) -> list[tuple[Case, list[Row]]]:
    """The results of each workload and direction, in the order in which these come."""
    found: dict[Case, list[Row]] = {}
    for each in rows:
        found.setdefault((each["workload"], each["direction"]), []).append(each)
    return list(found.items())


def _speed(row: Row) -> float | None:
    spread = row["bytes_per_second"]
    return None if spread is None else float(spread["median"])


def _percent(speed: float | None, of: float | None) -> float | None:
    """The increase; negative where it is slower."""
    return None if speed is None or not of else 100 * (speed / of - 1)


def _is_ahead(one: Row, other: Row) -> bool:
    fast, slow = one["bytes_per_second"], other["bytes_per_second"]
    if fast is None or slow is None or min(one["runs"], other["runs"]) < FEWEST:
        return False
    return bool(fast["low"] > slow["high"])
