"""Each case runs on one server and one database, which are drawn; with a marker or by name it runs on others too."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import pairs
from support.run import ROOT
from support.servers import KINDS

_PAIRS = list(itertools.product(KINDS, pairs.DATABASES))

_CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import pytest
from support import pairs

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        pairs.begin(config)

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    pairs.keep_drawn(items, config)

def pytest_report_header():
    return pairs.header()
"""

_TESTS = """
import pytest

server = pytest.mark.parametrize("s3server", ["versitygw", "seaweedfs"])
database = pytest.mark.parametrize("any_name", ["sqlite", "postgres"])
row = pytest.mark.parametrize("row", range(40))

@server
@database
def test_plain(s3server, any_name): ...

@server
@database
@pytest.mark.every_server
def test_servers(s3server, any_name): ...

@server
@database
@pytest.mark.every_database
def test_databases(s3server, any_name): ...

@server
@database
@pytest.mark.every_pair
def test_pairs(s3server, any_name): ...

@server
@row
def test_table(s3server, row): ...

@pytest.mark.parametrize("any_name", ["postgres"])
def test_one_database(any_name): ...

@pytest.mark.parametrize("word", ["plain", "text"])
def test_neither(word): ...
"""


def test_each_test_meets_each_pair_within_64_seeds() -> None:
    for number in range(500):
        case = f"tests/test_x.py::test_{number}"
        assert {pairs.draw(str(seed), case, _PAIRS) for seed in range(64)} == set(_PAIRS)


def test_two_seeds_draw_independently() -> None:
    cases = [f"tests/test_x.py::test_{number}" for number in range(400)]

    both = Counter((pairs.draw("one", case, _PAIRS), pairs.draw("two", case, _PAIRS)) for case in cases)

    assert len(both) == 16
    assert max(both.values()) < 60  # 25 on average


def test_a_draw_does_not_depend_on_the_order_of_collection() -> None:
    assert pairs.draw("one", "a", _PAIRS) == pairs.draw("one", "a", _PAIRS[::-1])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_it.py").write_text(_TESTS)
    markers = "".join(f"\n    every_{name}: x" for name in ("server", "database", "pair"))
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\nmarkers ={markers}\n")
    return folder


def _collect(project: Path, *words: str, seed: str = "one", **environment: str) -> tuple[list[str], str]:
    """The names of the tests that pytest would run, and its output."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
        "--collect-only",
        "-v",
    ]
    plain = {name: value for name, value in os.environ.items() if name != pairs.MODE}
    done = subprocess.run(
        [*command, *words], cwd=project, env={**plain, pairs.SEED: seed, **environment}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"<Function (.*)>", done.stdout), done.stdout


def _parameters(names: list[str], test: str) -> list[tuple[str, ...]]:
    return [tuple(name[:-1].partition("[")[2].split("-")) for name in names if name.startswith(f"{test}[")]


@pytest.fixture(scope="module")
def drawn(project: Path) -> tuple[list[str], str]:
    return _collect(project)


def test_a_case_runs_once_and_with_a_marker_on_each_server_or_database(drawn: tuple[list[str], str]) -> None:
    names, output = drawn

    assert len(_parameters(names, "test_plain")) == 1
    on_servers, on_databases = _parameters(names, "test_servers"), _parameters(names, "test_databases")
    assert sorted(server for _, server in on_servers) == sorted(KINDS)
    assert sorted(database for database, _ in on_databases) == sorted(pairs.DATABASES)
    assert len(_parameters(names, "test_pairs")) == 4
    assert _parameters(names, "test_one_database") == [("postgres",)]
    assert len(_parameters(names, "test_neither")) == 2
    assert "SEQFERRY_TEST_PAIRS_SEED=one; SEQFERRY_TEST_PAIRS=all runs all" in output
    assert "deselected" in output


def test_the_rows_of_a_table_are_spread_over_both_servers(drawn: tuple[list[str], str]) -> None:
    rows = _parameters(drawn[0], "test_table")

    assert sorted(int(row) for row, _ in rows) == list(range(40))
    assert {server for _, server in rows} == set(KINDS)


def test_another_seed_draws_as_many_others(project: Path, drawn: tuple[list[str], str]) -> None:
    names, _ = drawn
    others, _ = _collect(project, seed="two")

    assert set(names) != set(others)
    assert len(names) == len(others)


def test_all_pairs_of_all_tests_run_where_that_is_asked_for(project: Path) -> None:
    names, output = _collect(project, SEQFERRY_TEST_PAIRS="all")

    assert len(_parameters(names, "test_plain")) == 4
    assert len(_parameters(names, "test_table")) == 80
    assert "deselected" not in output


def test_what_is_named_with_its_parameters_runs_whatever_is_drawn(project: Path, drawn: tuple[list[str], str]) -> None:
    every = {f"test_plain[{database}-{server}]" for server, database in _PAIRS}
    alone = min(every - set(drawn[0]))

    assert set(_collect(project, *(f"test_it.py::{name}" for name in every))[0]) == every
    assert _collect(project, f"test_it.py::{alone}")[0] == [alone]


def test_a_selection_by_words_is_made_before_the_draw(project: Path) -> None:
    names, _ = _collect(project, "-k", "test_table and seaweedfs")

    assert len(names) == 40


def test_a_run_with_worker_processes_says_how_many_cases_were_left_out(project: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
        "-n1",
        "-k",
        "test_plain",
    ]
    plain = {name: value for name, value in os.environ.items() if name != pairs.MODE}

    done = subprocess.run(command, cwd=project, env=plain, text=True, capture_output=True)

    assert "pairs: 3 cases deselected" in done.stdout, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_without_git_the_seed_is_a_fixed_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch("[0-9a-f]{40}", pairs.default_seed(ROOT)) or not (ROOT / ".git").exists()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert pairs.default_seed(tmp_path) == "none"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pairs.default_seed(tmp_path) == "none"
