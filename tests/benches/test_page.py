"""The page of the benches: well-formed, needs nothing else, and shows all that was found, also of odd results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from figures import Figure, Result, merged, number, ratios
from page import page
from registry import BENCHES, Bench
from report import BASE, THIS, Attempt, Build, Report, Section
from seqferry.bench.plots import MISSING
from support.html import Element, parse
from verdict import RULE

COPY = Bench("copy", "Copying <fast> & well", "bench_copy.py", "Shows `a < b`.", "Shows no c.", rounds=5)
WORK = "versitygw, small: 3 objects"


def wall(values: dict[str, list[float]], **more: str) -> Figure:
    return Figure(WORK, "wall time", "s", "lower", values, baseline="seqferry", **more)


def section(**results: Result) -> Section:
    attempts = [Attempt(build, round_, 1.5, 2.0) for build in results for round_ in range(5)]
    return Section(COPY, ("--small", "3"), attempts, dict(results))


def report(*sections: Section) -> Report:
    two = any(BASE in one.results for one in sections)
    builds = [Build(THIS, "0123456789ab", "seqferry 1.0"), Build(BASE, "ba9876543210 (v0)", "seqferry 0.9")]
    machine = {"cpu": "a CPU", "cores": 2, "memory_gib": 4.0, "system": "Linux", "python": "3.11"}
    load = {"before": 0.5, "after": 1.5}
    shown = builds if two else builds[:1]
    return Report(
        "2026-01-02T03:04:05+00:00", False, "make bench", machine, load, shown, RULE if two else None, [*sections]
    )


def of_copy(document: Element) -> Element:
    [found] = [one for one in document.all("section") if one.attributes.get("id") == "copy"]
    return found


def test_every_value_is_a_dot_and_every_series_has_its_median() -> None:
    values = {"seqferry": [1.0, 1.1, 1.3], "rclone <copy>": [2.0, 2.0, 2.5]}

    document = parse(page(report(section(this=Result("copy", [wall(values)])))))

    [plot] = [one for one in of_copy(document).all("figure") if not one.attributes.get("class")]
    parts = {name: [one for one in plot.all("g") if one.attributes.get("id") == name] for name in ("values", "median")}
    assert [len(one.all("use")) for one in parts["values"]] == [3, 3]
    assert len(parts["median"]) == 2
    assert "1.10 [1.00..1.30]" in plot.text
    assert "×1.818" in plot.text
    assert "rclone <copy>" in plot.text


def test_the_ratios_stand_side_by_side_with_their_spread() -> None:
    values = {"seqferry": [1.0, 1.1, 1.3], "rclone": [2.0, 2.2, 2.5]}

    document = parse(page(report(section(this=Result("copy", [wall(values)])))))

    [plot] = [one for one in of_copy(document).all("figure") if one.attributes.get("class") == "ratios"]
    assert "rclone" in plot.all("svg")[0].text
    assert [cell.text for cell in plot.all("td")] == ["wall time", "rclone", "2.00", "1.92", "2.00"]


def test_what_is_simulated_says_so_and_names_every_parameter() -> None:
    model = {"time_scale": 1.0, "part_copy": {"base_seconds": 0.8}, "writes_per_second": 3500.0}
    simulated = Result("copy", [wall({"seqferry": [1.0]})], simulated=True, model=model)

    text = of_copy(parse(page(report(section(this=simulated))))).text

    assert "SIMULATED" in text
    for parameter in ("time_scale = 1", "part_copy.base_seconds = 0.8", "writes_per_second = 3,500"):
        assert parameter in text
    assert "SIMULATED" not in parse(page(report(section(this=Result("copy", []))))).text


def test_machine_load_commit_and_versions_are_named() -> None:
    result = Result("copy", [], versions={"rclone copy": "rclone v1.75"})

    text = parse(page(report(section(this=result)))).text

    for fact in ("a CPU", "2 cores", "0.5 before", "1.5 after", "commit 0123456789ab", "rclone v1.75", "make bench"):
        assert fact in text


def test_of_two_builds_each_figure_has_a_verdict() -> None:
    fast, slow = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]
    builds = {THIS: Result("copy", [wall({"seqferry": fast})]), BASE: Result("copy", [wall({"seqferry": slow})])}

    made = report(section(**builds))
    document = parse(page(made))

    [verdicts] = [one for one in document.all("section") if one.attributes.get("id") == "verdicts"]
    assert "1 better." in verdicts.text
    assert RULE in verdicts.text
    assert [cell.text for cell in verdicts.all("td")][-3:] == ["0.545", "0.455..0.650", "better"]
    [plot] = [one for one in of_copy(document).all("figure") if "seqferry, old" in one.text]
    assert "seqferry, new" in plot.text
    [compared] = made.as_json()["benches"][0]["compared"]
    assert compared["verdict"]["word"] == "better"


def test_what_failed_and_what_was_left_out_is_said() -> None:
    failed = section(this=Result("copy", [], errors=["<boom>"], left_out=["rclone is not there"]))
    absent = Section(COPY, (), left_out="no simulator")

    made = report(failed)

    assert made.failed
    assert "Failed: <boom>" in of_copy(parse(page(made))).text
    assert "rclone is not there" in of_copy(parse(page(made))).text
    assert "Left out: no simulator" in of_copy(parse(page(report(absent)))).text


@pytest.mark.parametrize(
    "values",
    [
        {"seqferry": [0.0, 0.0], "rclone": [0.0, 1.0]},
        {"seqferry": [0.0001, 1000.0]},
        {"seqferry": [5.0]},
        {"seqferry": [-5.0, 2.0], "rclone": [-1.0]},
        {"seqferry": [], "rclone": [1.0]},
        {f"method {number}": [float(number)] for number in range(1, 13)},
        {"seqferry": [1e9, 1e9, 1e9]},
        {"a name that is far longer than what stands beside a plot of this width": [1.0, 2.0]},
    ],
    ids=["zeros", "wide", "one", "negative", "none of ours", "many series", "large", "long name"],
)
def test_odd_values_are_drawn_within_the_plot(values: dict[str, list[float]]) -> None:
    document = parse(page(report(section(this=Result("copy", [wall(values)])))))

    for plot in document.all("svg"):
        _, _, width, height = map(float, plot.attributes["viewbox"].split())
        for one in plot.all("use"):
            assert 0 <= float(one.attributes.get("x", 0)) <= width, one.attributes
            assert 0 <= float(one.attributes.get("y", 0)) <= height, one.attributes
    drawn = [one for one in document.all("g") if one.attributes.get("id") == "values"]
    assert sum(len(one.all("use")) for one in drawn) == sum(map(len, values.values()))
    assert not re.search(r"nan|inf\b", "".join(str(one.attributes) for one in document.all("use", "path")))


def test_without_matplotlib_the_tables_say_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    document = parse(page(report(section(this=Result("copy", [wall({"seqferry": [1.0, 1.2]})])))))

    assert document.all("svg") == []
    assert MISSING in document.text
    assert [cell.text for cell in of_copy(document).all("td")][:5] == ["seqferry", "2", "1.10", "1.00", "1.20"]


def test_rounds_are_merged_in_their_order_and_lines_are_told_once() -> None:
    first = Result("copy", [wall({"a": [1.0], "b": [2.0]})], left_out=["no rclone"], versions={"a": "1"})
    second = Result("copy", [wall({"b": [4.0], "a": [3.0]})], left_out=["no rclone"], simulated=True, model={"x": 1})

    found = merged([first, second])

    assert found.figures == [wall({"a": [1.0, 3.0], "b": [2.0, 4.0]})]
    assert (found.left_out, found.simulated, found.model) == (["no rclone"], True, {"x": 1})
    assert first.figures[0].series == {"a": [1.0], "b": [2.0]}


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = Result(
        "copy", [wall({"a": [1.0]}, dot="call")], True, {"x": {"y": 1}}, {"a": "1"}, ["l"], ["e"], {"raw": []}
    )
    path = tmp_path / "result.json"

    result.write(path, load=1.0)

    assert Result.read(path) == result
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 99'))
    with pytest.raises(ValueError, match="schema 99"):
        Result.read(path)


def test_ratios_are_those_of_the_rounds() -> None:
    assert ratios(wall({"seqferry": [1.0, 2.0, 4.0], "b": [3.0, 4.0, 4.0]})) == {"b": (2.0, 1.0, 3.0)}
    assert ratios(wall({"seqferry": [1.0, 2.0], "b": [4.0]})) == {"b": (pytest.approx(8 / 3), 2.0, 4.0)}
    assert ratios(wall({"seqferry": [0.0, 2.0], "b": [4.0, 4.0]})) == {}
    assert ratios(wall({"b": [4.0, 4.0]})) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (0.5, "0.50"), (2, "2.00"), (2.345, "2.35"), (23.45, "23.4"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_every_bench_is_in_the_registry() -> None:
    scripts = {path.name for path in (Path(__file__).parents[2] / "benches").glob("bench_*.py")}

    told = "each benches/bench_*.py has an entry in benches/registry.py: see docs/develop/benchmarks.md"
    assert scripts == {bench.script for bench in BENCHES}, told
    assert len({bench.name for bench in BENCHES}) == len(BENCHES)
