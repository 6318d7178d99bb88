"""Figures set against the standard method, an earlier report, one stream, and by use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqferry.bench import baselines, compare, page, table, uses
from seqferry.cli.app import run
from seqferry.model.errors import UsageError

MIB = 2**20


def row(
    method: str, speeds: list[float], *, threads: int | None = None, direction: str = "upload", workload: str = "1x3GiB"
) -> dict[str, Any]:
    """A result, of speeds in MiB/s of 3 GiB."""
    spread = {"median": sorted(speeds)[len(speeds) // 2], "low": min(speeds), "high": max(speeds)} if speeds else None
    return {
        "workload": workload,
        "direction": direction,
        "label": method if threads is None else f"{method}, {threads} threads",
        "method": method,
        "threads": threads,
        "part_size": None,
        "runs": len(speeds),
        "failed": 0,
        "bytes_per_second": spread and {name: value * MIB for name, value in spread.items()},
        "wall_s": spread
        and {
            "median": 3072 / spread["median"],
            "low": 3072 / spread["high"],
            "high": 3072 / spread["low"],
        },
        "on_disk_s": None,
        "cpu_s": None,
        "cpu_s_per_gib": None,
        "peak_bytes": None,
    }


def report(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "at": "2026-11-20T12:00:00+00:00",
        "place": {"bucket": "b", "endpoint_url": None, "region": "us-east-1"},
        "machine": {"cores": 2, "cpu": "a cpu"},
        "results": rows,
        **more,
    }


def written(folder: Path, value: Any) -> Path:
    path = folder / "earlier.json"
    path.write_text(json.dumps(value))
    return path


def test_each_method_is_set_against_the_library_as_it_is() -> None:
    rows = [row("boto3", [7.0] * 3), row("boto3-tuned", [35.42] * 3), row("crt", [6.38] * 3), row("s5cmd", [])]

    baselines.compare(rows, None)

    assert [each["against_standard_percent"] for each in rows] == [
        pytest.approx(0),
        pytest.approx(406.0, abs=0.01),
        pytest.approx(-8.86, abs=0.01),
        None,
    ]
    assert [each["ahead_of"] for each in rows] == [["crt"], ["boto3", "crt"], [], []]
    assert {each["against_baseline_percent"] for each in rows} == {None}


def test_without_the_library_there_is_no_percentage_and_one_run_is_ahead_of_nothing() -> None:
    rows = [row("s5cmd", [90]), row("crt", [10])]

    baselines.compare(rows, None)

    assert [(each["against_standard_percent"], each["ahead_of"]) for each in rows] == [(None, []), (None, [])]


def test_the_increase_by_number_of_streams_is_against_the_least() -> None:
    rows = [row("s5cmd", [speed], threads=threads) for threads, speed in ((4, 250.0), (1, 100.0), (2, 90.0))]

    found = baselines.streams([*rows, row("s5cmd", [500]), row("rclone", [100], threads=8)])

    assert [(each["threads"], each["against_threads"], each["increase_percent"]) for each in found] == [
        (1, 1, pytest.approx(0)),
        (2, 1, pytest.approx(-10)),
        (4, 1, pytest.approx(150)),
    ]


def test_the_best_of_an_earlier_report_stands_beside_the_figures(tmp_path: Path) -> None:
    file = written(tmp_path, report([row("a", [8.0]), row("b", [8.63]), row("c", []), row("a", [9], workload="2x1B")]))

    found = baselines.read_baseline(file, [("1x3GiB", "upload"), ("1x3GiB", "download")])
    rows = [row("boto3", [17.26] * 3)]
    baselines.compare(rows, found)

    assert found.best == {("1x3GiB", "upload"): ("b", 8.63 * MIB)}
    assert rows[0]["against_baseline_percent"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "no report"),
        ("not json", "not JSON"),
        ("[1]", "no report"),
        (json.dumps(report([row("a", [])])), "none of these"),
        (json.dumps(report([row("a", [1], workload="5x1KiB")])), "none of these"),
        (json.dumps(report([{**row("a", [1]), "bytes_per_second": "fast"}])), "no report"),
        (
            json.dumps(report([{**row("a", [1]), "bytes_per_second": {"median": float("nan"), "low": 1, "high": 1}}])),
            "JSON",
        ),
        (json.dumps(report([{**row("a", [1]), "bytes_per_second": {"median": -1, "low": 1, "high": 1}}])), "no report"),
        (json.dumps(report([row("a", [1])])).replace("1048576", "1e999"), "no report"),
    ],
)
def test_an_earlier_report_that_is_none_is_one_line_before_anything_is_touched(
    content: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "earlier.json"
    file.write_text(content)

    with pytest.raises(UsageError, match=why):
        baselines.read_baseline(file, [("1x3GiB", "upload")])
    # The endpoint is no server: it is not asked.
    options = ("--workload", "3GiB", "--endpoint-url", "http://127.0.0.1:1", "--baseline", str(file))
    code = run(["bench", "transfer", "s3://b/p/", *options])
    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert list(tmp_path.iterdir()) == [file]


def both(method: str, up: list[float], down: list[float]) -> list[dict[str, Any]]:
    return [row(method, up), row(method, down, direction="download")]


def test_each_use_has_its_own_best_method() -> None:
    rows = [
        *both("tuned", [35.4, 35.4, 35.5], [31.6, 31.6, 31.7]),
        *both("tuned-accelerated", [34.6, 34.6, 34.7], [48.6, 48.6, 48.7]),
        *both("boto3", [7, 7, 7], [7.5, 7.5, 7.6]),
        *both("broken", [90, 90, 90], []),
    ]

    found = {each.use: each for each in uses.advise(rows)}

    assert {use: each.methods for use, each in found.items()} == {
        "download-heavy": ("tuned-accelerated",),
        "upload-heavy": ("tuned-accelerated",),
        "balanced": ("tuned-accelerated",),
        "all": ("tuned-accelerated",),
    }
    assert "1.02 times the best" in found["all"].text
    assert "9 downloads for each upload" in found["download-heavy"].text


def test_uses_differ_where_the_directions_do_and_overlaps_share_the_place() -> None:
    up, down, near = [100, 100, 101], [10, 10, 11], [95, 98, 101]
    rows = [*both("up", up, down), *both("down", down, up), *both("near", down, near)]

    found = {each.use: each.methods for each in uses.advise(rows)}

    assert (found["upload-heavy"], found["download-heavy"]) == (("up",), ("down", "near"))


@pytest.mark.parametrize("runs", [1, 2])
def test_a_use_has_no_verdict_by_fewer_than_three_runs(runs: int) -> None:
    rows = [*both("up", [100] * runs, [10] * runs), *both("down", [10] * 3, [100] * 3)]

    found = {each.use: each for each in uses.advise(rows)}

    assert found["upload-heavy"].methods == ("up", "down")
    assert "a verdict needs 3" in found["upload-heavy"].text
    assert "a verdict needs 3" in found["all"].text


def test_a_use_counts_downloads_until_they_are_on_the_disk() -> None:
    """One method syncs what it downloads within its time, and the other leaves that to the system."""
    lazy, thorough = both("lazy", [10] * 3, [100] * 3), both("thorough", [10] * 3, [50] * 3)
    for rows, seconds in ((lazy, 90.0), (thorough, 62.0)):
        rows[1]["on_disk_s"] = {"median": seconds, "low": seconds, "high": seconds}

    found = {each.use: each.methods for each in uses.advise([*lazy, *thorough])}

    assert found["download-heavy"] == ("thorough",)


def test_one_direction_alone_has_no_mix_and_no_success_no_advice() -> None:
    assert [each.use for each in uses.advise([row("a", [1, 2])])] == ["all"]
    assert uses.advise([row("a", [])]) == []


def test_numbers_of_threads_may_differ_up_and_down() -> None:
    asked = compare.ask(
        workloads=(),
        direction="both",
        names=(),
        threads=("4",),
        part_sizes=(),
        warm_up=1,
        repetitions=1,
        seed=None,
        threads_up=("15",),
    )

    assert (asked.numbers("upload"), asked.numbers("download")) == ((15,), (4,))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--threads-up", "0"), "--threads-up 0"),
        (("--threads-down", "1.5"), "--threads-down 1.5"),
        (("--threads-down", "-1"), "--threads-down -1"),
        (("--threads", "9" * 5000), "--threads"),
        (("--acceleration", "maybe"), "--acceleration maybe"),
        (("--acceleration", "on", "--methods", "s5cmd"), "names none"),
        (("--baseline", "/no/such/report.json"), "/no/such/report.json"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    options: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["bench", "transfer", "s3://bucket/prefix/", *options])

    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert names in err


def test_without_acceleration_its_methods_are_not_asked_for() -> None:
    asked = compare.ask(
        workloads=(),
        direction="both",
        names=("seqferry", "seqferry-accelerated"),
        threads=(),
        part_sizes=(),
        warm_up=1,
        repetitions=1,
        seed=None,
        acceleration="off",
    )

    assert asked.methods == ("seqferry",)


def test_the_page_begins_with_what_to_take_and_marks_our_rows() -> None:
    rows = [row("seqferry", [100, 101]), row("boto3", [7, 8]), row("seqferry", [50, 51], threads=4)]
    rows.append(row("seqferry", [25, 26], threads=1))
    baseline = baselines.Baseline(
        "earlier.json", "2026-11-20T12:00:00+00:00", {("1x3GiB", "upload"): ("old", 8.63 * MIB)}
    )
    baselines.compare(rows, baseline)
    modelled = {
        "mode": "AWS DataSync, Basic mode",
        "workload": "1x3GiB",
        "dollars": 0.04,
        "bytes_per_second_at_best": 15e6,
        "seconds_at_best": 205.0,
        "label": "modelled, not measured",
    }
    result = report(
        rows,
        asked={"workloads": [{"name": "1x3GiB", "bytes": 3 * 2**30}], "directions": ["upload"]},
        load={"before": 0, "after": 0},
        seed=1,
        interrupted=False,
        stopped_by=None,
        recommendations=[{"sentence": "One file of 3.0 GiB up: Seqferry, <b>."}],
        by_use=[{"text": "all workloads: Seqferry"}],
        rule="a rule",
        streams=baselines.streams(rows),
        baseline=baseline.facts(),
        modelled=[modelled],
        methods=[],
        left_out=[],
        acceleration=None,
        runs=[],
    )
    result["machine"] |= {"memory_gib": 1, "system": "s"}

    text = page.page(result, [])
    [(_, head, cells)] = table.cases(result)

    assert text.index("One file of 3.0 GiB up: Seqferry, &lt;b&gt;.") < text.index("What was measured")
    assert text.count('<tr class="ours">') == 3 + 1
    assert head[-3:] == ("against boto3", "against earlier", "ahead of")
    assert [row[0] for row in cells] == [
        "seqferry",
        "seqferry, 4 threads",
        "seqferry, 1 threads",
        "boto3",
        "previous best: old (2026-11-20)",
    ]
    assert {len(row) for row in cells} == {len(head)}
    assert cells[4][1] == "8.6"
    _, [datasync] = table.modelled_rows(result)
    assert datasync[-2:] == ("at best 14.3 MiB/s", "at best 205.00 s")
    assert not any("%" in cell for cell in datasync)
    [(title, numbers, [increase])] = table.streams(result)
    assert "percent increase by number of streams" in title
    assert (numbers, increase) == (("method", "1", "4"), ("seqferry", "+0.0 %", "+96.2 %"))
