"""Reports of several places and days side by side: of ``bench gateway``, or of ``bench transfer``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from seqferry.bench.machine import installed_version
from seqferry.bench.plots import Plot
from seqferry.model.errors import UsageError
from seqferry.model.formatting import printable
from seqferry.templates import environment

SCHEMA: Final = 1
MOST_REPORTS: Final = 50
_MOST_BYTES: Final = 64 * 2**20
_MIB: Final = 2**20
_HEAD: Final = ("report", "measured", "MiB/s", "against the best", "runs")


def merge(files: Sequence[Path]) -> dict[str, Any]:
    """The reports as one document: for each case the figures of all.

    Raises:
        UsageError: a file is no report, or the reports are of different kinds or measure nothing alike.
    """
    if not 2 <= len(files) <= MOST_REPORTS:
        raise UsageError(f"Merging takes 2 to {MOST_REPORTS} reports, not {len(files)}.")
    reports = [read_report(file) for file in files]
    kinds = list(dict.fromkeys(kind for kind, _ in reports))
    if len(kinds) > 1:
        raise UsageError(f"The reports are of different kinds: {' and '.join(kinds)}. Merge those of one kind.")
    names = _names(files)
    results = [
        row for name, (kind, report) in zip(names, reports, strict=True) for row in _rows(kind, name, report["results"])
    ]
    cases = {row["case"] for row in results}
    if all(len({row["report"] for row in results if row["case"] == case}) < 2 for case in cases):
        raise UsageError("The reports have no experiment in common: measure with the same --size or --workload.")
    return {
        "schema": SCHEMA,
        "kind": "merged",
        "of": kinds[0],
        "seqferry": installed_version(),
        "reports": [
            {"name": name, "file": str(file), "at": report["at"], "where": _where(kind, report)}
            for name, file, (kind, report) in zip(names, files, reports, strict=True)
        ],
        "results": results,
    }


def read_report(file: Path) -> tuple[str, dict[str, Any]]:
    """The kind of a report, and the report.

    Raises:
        UsageError: the file cannot be read, or is no report.
    """
    named = printable(str(file))
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise UsageError(f"{named} is larger than {_MOST_BYTES // _MIB} MiB: it is no report.")
        found: Any = json.loads(text, parse_constant=_refuse)
    except OSError as why:
        raise UsageError(f"{named} cannot be read: {why.strerror or why}.") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{named} is no report: it is not JSON.") from None
    try:
        report = cast("dict[str, Any]", found)
        kind = str(report.get("kind", "transfer"))
        if kind not in ("gateway", "transfer"):
            raise UsageError(f"{named} is a report of kind {kind!r}, which is not set against others.")
        _rows(kind, "", report["results"])
        _where(kind, report)
        str(report["at"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise UsageError(f"{named} is no report of seqferry bench gateway or bench transfer.") from None
    return kind, report


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _names(files: Sequence[Path]) -> list[str]:
    """Short names that tell the files apart: of files, else of their folders too."""
    for parts in (1, 2, 3):
        names = ["/".join(file.resolve().parts[-parts:]) for file in files]
        if len(set(names)) == len(names):
            return [name.removesuffix(".json").removesuffix("/report") for name in names]
    return [f"{number}: {file}" for number, file in enumerate(files, 1)]


def _rows(kind: str, report: str, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in results:
        case = each["title"] if kind == "gateway" else f"{each['direction']}, {each['workload']}"
        what = each["folder"] if kind == "gateway" else each["label"]
        speed = each["bytes_per_second"]
        if speed is not None:
            speed = {name: float(speed[name]) for name in ("median", "low", "high")}
            if not all(0 < value < float("inf") for value in speed.values()):
                raise TypeError("a speed is a positive number")
        found.append(
            {"case": str(case), "what": str(what), "report": report, "runs": each["runs"], "bytes_per_second": speed}
        )
    return found


def _where(kind: str, report: dict[str, Any]) -> str:
    cpu = f"{report['machine']['cores']} cores of {report['machine']['cpu']}"
    if kind == "gateway":
        return f"{', '.join(folder['path'] for folder in report['folders'])}; {cpu}"
    place = report["place"]
    return f"s3://{place['bucket']}, {place['endpoint_url'] or 'AWS'}, {place['region']}; {cpu}"


def tables(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yields, for each case, its name, the head of its table and the rows, the fastest first."""
    for case in dict.fromkeys(row["case"] for row in result["results"]):
        own = [row for row in result["results"] if row["case"] == case]
        own.sort(key=lambda row: -(row["bytes_per_second"] or {"median": 0.0})["median"])
        best = (own[0]["bytes_per_second"] or {"median": 0.0})["median"]
        yield case, _HEAD, [_cells(row, best) for row in own]


def _cells(row: dict[str, Any], best: float) -> tuple[str, ...]:
    speed = row["bytes_per_second"]
    if speed is None:
        return row["report"], row["what"], "-", "-", str(row["runs"])
    middle, low, high = (f"{speed[name] / _MIB:,.1f}" for name in ("median", "low", "high"))
    shown = middle if low == high else f"{middle} [{low}..{high}]"
    return row["report"], row["what"], shown, f"{100 * speed['median'] / best:.0f} %", str(row["runs"])


def page(result: dict[str, Any], _plots: Sequence[Plot]) -> str:
    """The whole document."""
    return environment.render(
        "bench_merged.html",
        style="bench.css",
        title="Seqferry: reports merged",
        reports=[(each["name"], each["at"], each["where"]) for each in result["reports"]],
        results=tables(result),
    )


def draw(_result: dict[str, Any]) -> tuple[list[Plot], str | None]:
    """No plots: the tables say it."""
    return [], None
