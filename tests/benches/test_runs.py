"""How benches are run: in rounds, two builds in turns, and what becomes of those that fail or lack a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import run_benches
from registry import Bench
from report import BASE, THIS, Build, Report

# A bench as the registry asks for: notes that it ran, and which build and round it measured.
SCRIPT = """
import argparse, os, sys
from pathlib import Path
sys.path[:0] = [{benches!r}, {tests!r}]
from figures import Figure, Result
import harness
parser = argparse.ArgumentParser()
parser.add_argument("--then", default="")
harness.add_arguments(parser)
options = parser.parse_args()
build = os.environ.get("SEQFERRY_COMMAND", "this")
with Path({log!r}).open("a") as log:
    log.write(f"{{build}} {{options.turn}} {{os.environ.get('SEQFERRY_S3SIM', '-')}}\\n")
def main():
    if options.then == "crash":
        raise SystemExit("it broke")
    if options.then == "missing":
        from support.run import MissingToolError
        raise MissingToolError("weed is not installed")
    if options.then == "silent":
        return 0
    if options.then == "foreign":
        options.json.write_text('{{"schema": 1, "bench": "fake"}}')
        return 0
    value = 10.0 + options.turn + (100 if build == "old" else 0)
    errors = ["a copy differs"] if options.then == "wrong" else []
    figures = [Figure("work", "wall time", "s", "lower", {{"seqferry": [value]}})]
    return harness.finish(options, Result("fake", figures, errors=errors))
harness.run(main)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def script(tmp_path: Path, log: Path) -> str:
    tests = Path(__file__).parents[1]
    path = tmp_path / "bench.py"
    path.write_text(SCRIPT.format(benches=str(tests.parent / "benches"), tests=str(tests), log=str(log)))
    return str(path)


def bench(script: str, then: str = "", **more: Any) -> Bench:
    words = ("--then", then) if then else ()
    return Bench("fake", "A bench", script, "Shows.", "Does not.", rounds=3, full=words, **more)


def run(*arguments: str, benches: list[Bench], environments: dict[str, dict[str, str]] | None = None) -> Report:
    options = run_benches._parse(arguments)
    builds = [Build(THIS, "1", "seqferry 1"), Build(BASE, "0", "seqferry 0")]
    return run_benches._run(options, benches, environments or {THIS: {}}, builds[: 2 if environments else 1])


def test_each_round_is_a_run_and_a_value(script: str, log: Path) -> None:
    report = run(benches=[bench(script)])

    assert log.read_text().splitlines() == ["this 0 -", "this 1 -", "this 2 -"]
    [section] = report.sections
    assert section.results[THIS].figures[0].series == {"seqferry": [10.0, 11.0, 12.0]}
    assert [attempt.round for attempt in section.attempts] == [0, 1, 2]
    assert not report.failed


def test_two_builds_alternate_and_take_turns_in_beginning(script: str, log: Path) -> None:
    old = {"SEQFERRY_COMMAND": "old", "SEQFERRY_S3SIM": "its-simulator"}

    report = run("--base", "old", "--rounds", "4", benches=[bench(script)], environments={THIS: {}, BASE: old})

    builds = [line.split()[0] for line in log.read_text().splitlines()]
    assert builds == ["this", "old", "old", "this", "this", "old", "old", "this"]
    assert "its-simulator" not in log.read_text()
    [compared] = report.sections[0].compared()
    assert compared.verdict is not None
    assert compared.verdict.word == "better"
    assert compared.verdict.ratio == pytest.approx(0.1, rel=0.1)


def test_what_measures_the_simulator_takes_each_build_s_own(script: str, log: Path) -> None:
    own = bench(script, builds_simulator=True)
    old = {"SEQFERRY_COMMAND": "old", "SEQFERRY_S3SIM": "its-simulator"}

    run("--base", "old", "--rounds", "1", benches=[own], environments={THIS: {}, BASE: old})
    assert log.read_text().splitlines() == ["this 0 -", "old 0 its-simulator"]

    report = run("--base", "old", benches=[own], environments={THIS: {}, BASE: {"SEQFERRY_COMMAND": "old"}})
    assert report.sections[0].missing == ["the other build has no simulator"]


@pytest.mark.parametrize(
    ("then", "error"),
    [
        ("crash", "ended with status 1: it broke"),
        ("silent", "ended with status 0"),
        ("wrong", "a copy differs"),
        ("foreign", "wrote what is no result: a result without details"),
    ],
)
def test_a_bench_that_fails_is_told_and_the_others_run(script: str, then: str, error: str) -> None:
    report = run("--rounds", "1", benches=[bench(script, then), bench(script)])

    assert report.failed
    assert error in report.sections[0].errors[0]
    assert report.sections[1].results[THIS].figures


def test_a_bench_that_lacks_a_tool_is_left_out_and_is_no_failure(script: str, log: Path) -> None:
    report = run(benches=[bench(script, "missing")])

    assert report.sections[0].missing == ["weed is not installed"]
    assert not report.failed
    assert len(log.read_text().splitlines()) == 1


def test_the_page_and_the_values_are_written(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_benches, "BENCHES", [bench(script)])

    assert run_benches.main(["--rounds", "1", "--output", str(tmp_path / "out")]) == 0

    [values] = (tmp_path / "out").glob("bench-*.json")
    [page] = (tmp_path / "out").glob("bench-*.html")
    assert json.loads(values.read_text())["command"] == 'make bench ARGS="--rounds 1"'
    assert str(page) in capsys.readouterr().out


def test_a_ref_that_is_not_there_is_refused_before_anything_runs(
    script: str, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_benches, "BENCHES", [bench(script)])

    assert run_benches.main(["--base", "no-such-ref"]) == 2

    assert not log.exists()
    assert capsys.readouterr().err.count("\n") == 1
