"""Reports of measurements side by side, and their page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqferry.bench import merged
from seqferry.model.errors import UsageError
from seqferry.templates import environment

_MIB = 2**20


def _report(*results: tuple[str, str, float | None], **more: Any) -> dict[str, Any]:
    rows = [
        {
            "direction": "up",
            "workload": workload,
            "label": label,
            "runs": 3,
            "bytes_per_second": None if speed is None else dict.fromkeys(("median", "low", "high"), speed),
        }
        for workload, label, speed in results
    ]
    place = {"bucket": "b", "endpoint_url": None, "region": "eu-west-1"}
    return {"at": "now", "machine": {"cores": 2, "cpu": "x"}, "place": place, "results": rows} | more


def _write(folder: Path, *reports: dict[str, Any]) -> list[Path]:
    files = [folder / f"{number}.json" for number in range(len(reports))]
    for file, report in zip(files, reports, strict=True):
        file.write_text(json.dumps(report))
    return files


def test_the_fastest_of_each_case_comes_first_and_is_what_others_are_held_against(tmp_path: Path) -> None:
    files = _write(
        tmp_path,
        _report(("1 GiB", "ours", 50 * _MIB), ("small", "ours", None)),
        _report(("1 GiB", "ours", 200 * _MIB), ("1 GiB", "other", None)),
    )

    found = {case: rows for case, _, rows in merged.tables(merged.merge(files))}

    assert found["up, 1 GiB"] == [
        ("1", "ours", "200.0", "100 %", "3"),
        ("0", "ours", "50.0", "25 %", "3"),
        ("1", "other", "-", "-", "3"),
    ]
    assert found["up, small"] == [("0", "ours", "-", "-", "3")]


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([_report(("1 GiB", "ours", 1.0))], "takes 2 to"),
        ([_report(("1 GiB", "ours", 1.0)), _report(("2 GiB", "ours", 1.0))], "no experiment in common"),
        ([_report(), _report()], "no experiment in common"),
        ([_report(("x", "y", 0.0)), _report()], "is no report"),
        ([_report(("x", "y", -1.0)), _report()], "is no report"),
        ([_report(kind="stage"), _report()], "of kind 'stage'"),
        ([{"results": []}, _report()], "is no report of"),
        ([_report(results=7), _report()], "is no report of"),
    ],
)
def test_reports_that_do_not_fit_are_refused(tmp_path: Path, reports: list[Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        merged.merge(_write(tmp_path, *reports))


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "7", '{"results": NaN}', "[" * 100_000, "\xff"])
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(UsageError, match="is no report"):
        merged.read_report(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["/m/a.json", "/m/b.json"], ["a", "b"]),
        (["/m/one/report.json", "/m/two/report.json"], ["one", "two"]),
        (["/one/m/report.json", "/two/m/report.json"], ["one/m", "two/m"]),
        (["/one/x/m/report.json", "/two/x/m/report.json"], ["1: /one/x/m/report.json", "2: /two/x/m/report.json"]),
    ],
)
def test_reports_are_named_by_as_little_of_their_paths_as_tells_them_apart(files: list[str], names: list[str]) -> None:
    assert merged._names([Path(file) for file in files]) == names


def test_texts_of_the_page_are_no_markup(tmp_path: Path) -> None:
    files = _write(tmp_path, _report(("<w>", "<b>a", 1.0)), _report(("<w>", "b\x1b", None)))

    page = merged.page(merged.merge(files), ())

    assert "<h3>up, &lt;w&gt;</h3>" in page
    assert "<td>&lt;b&gt;a</td>" in page
    assert "<td>b\\x1b</td>" in page


def test_columns_behind_the_words_hold_numbers_and_marked_rows_stand_out(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(
        '{% from "parts.html" import items, table %}'
        '{{ table(("tool", "speed", "note"), rows, marked="ours", last_is_text=true) }}{{ items([]) }}'
    )

    made = environment.render("one.html", folder=tmp_path, rows=[("ours", "1", "x"), ("s5cmd", "2", "y")])

    assert made.count('<tr class="ours">') == 1
    assert '<td>ours</td><td class="n">1</td><td class="t">x</td>' in "".join(made.splitlines())
    assert "<ul>" not in made
