"""``make bench`` as a developer runs it, on small sizes: every bench, one JSON file, one page. Nothing on speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.html import Element, parse
from support.run import ROOT, MissingToolError, Run, find_tool

pytestmark = pytest.mark.timeout(1260)

REPORT = {"at", "benches", "builds", "command", "load", "machine", "quick", "rule", "schema", "versions"}
BENCH = {
    *("name", "title", "proves", "cannot", "options", "simulated", "model"),
    *("left_out", "errors", "runs", "figures", "compared"),
}
FIGURE = {"baseline", "better", "build", "dot", "group", "name", "series", "unit"}
PARTS = ("values", "median")
"""Groups of the plot of a figure."""
_SECONDS = 1200
"""Beside other tests a quick run takes three times as long as alone, where it takes three minutes."""
NEEDED = {
    "copy": False,
    "copy-simulated": True,
    "transfer": False,
    "transfer-simulated": True,
    "paper": True,
    "million": True,
    "fleet": True,
    "pipelines": False,
    "tar": False,
    "mount": False,
    "gateway": False,
    "simulator": False,
}
"""The benches, and whether S3 is simulated in them."""


def _benches(folder: Path) -> dict[str, str]:
    folder.mkdir()
    command = [sys.executable, ROOT / "benches" / "run_benches.py", "--quick", "--rounds", "1", "--output", folder]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS)
    assert ended.returncode == 0, ended.stderr[-3000:] + ended.stdout[-3000:]
    return {"folder": str(folder)}


@pytest.fixture(scope="module")
def output(run: Run) -> Path:
    """What one quick run has written, whichever process needs it first."""
    try:
        for name in ("s3sim", "sim_load", "versitygw", "weed"):
            find_tool(name, variable=f"SEQFERRY_{name.upper()}", hint="run `make tools`")
    except MissingToolError as missing:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    return Path(run.once("bench", lambda: _benches(run.folder / "bench"))["folder"])


@pytest.fixture(scope="module")
def report(output: Path) -> dict[str, Any]:
    [path] = output.glob("bench-*.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def page(output: Path) -> Element:
    [path] = output.glob("bench-*.html")
    return parse(path.read_text())


@pytest.mark.long
def test_the_values_have_the_documented_form(report: dict[str, Any]) -> None:
    assert set(report) == REPORT
    assert report["schema"] == 1
    assert set(report["machine"]) == {"cores", "cpu", "memory_gib", "python", "system"}
    assert set(report["load"]) == {"before", "after"}
    assert [set(build) for build in report["builds"]] == [{"commit", "name", "version"}]
    assert re.fullmatch(r"seqferry \d+\.\d+\.\d+", report["builds"][0]["version"])
    for bench in report["benches"]:
        assert set(bench) == BENCH
        for run in bench["runs"]:
            assert set(run) == {"build", "error", "load_before", "round", "seconds"}
        for figure in bench["figures"]:
            assert set(figure) == FIGURE
            assert all(isinstance(value, int | float) for values in figure["series"].values() for value in values)


def test_every_bench_has_measured_something_and_failed_in_nothing(report: dict[str, Any]) -> None:
    assert {bench["name"]: bench["simulated"] for bench in report["benches"]} == NEEDED
    for bench in report["benches"]:
        assert bench["errors"] == []
        assert bench["figures"], bench["left_out"]
        assert all(any(figure["series"].values()) for figure in bench["figures"])


def test_the_cost_of_requests_is_there_for_every_row_of_the_paper(report: dict[str, Any]) -> None:
    [paper] = [bench for bench in report["benches"] if bench["name"] == "paper"]
    series = {figure["name"]: figure["series"] for figure in paper["figures"]}

    assert {"seqferry", "seqferry, narrow", "seqferry x3"} < series["cost of requests"].keys()
    assert any(name.startswith("S3Mirror") for name in series["cost of requests"])
    assert series["cost of requests"].keys() == series["rate"].keys()
    assert all(value > 0 for values in series["cost of requests"].values() for value in values)


def test_every_bench_has_its_section_and_every_figure_its_plot(report: dict[str, Any], page: Element) -> None:
    for bench in report["benches"]:
        [section] = [one for one in page.all("section") if one.attributes.get("id") == bench["name"]]
        plots = [one for one in section.all("figure") if not one.attributes.get("class")]
        assert len(plots) == len(bench["figures"])
        for plot, figure in zip(plots, bench["figures"], strict=True):
            assert figure["name"] in plot.all("h4")[0].text
            drawn = {name: [one for one in plot.all("g") if one.attributes.get("id") == name] for name in PARTS}
            assert sum(len(one.all("use")) for one in drawn["values"]) == sum(map(len, figure["series"].values()))
            assert len(drawn["median"]) == len(figure["series"])
        assert ("SIMULATED" in section.text) == bench["simulated"]
        for name in bench["model"] or {}:
            assert name in section.text


def test_the_page_needs_nothing_else(output: Path, page: Element) -> None:
    [path] = output.glob("bench-*.html")

    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)|url\((?!#)|@import|<script|<link", path.read_text())
    assert "prefers-color-scheme: dark" in page.all("style")[0].text
    ids = [one.attributes["id"] for one in page.all("section")]
    links = [one.attributes["href"] for one in page.all("a")]
    assert links == [f"#{name}" for name in ids]
