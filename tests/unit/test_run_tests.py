"""``tools/run_tests.py``, which ``make test`` runs: a lost race is told from a fault, with real cargo and pytest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTEST = f"{sys.executable} -m pytest -p no:cacheprovider -p xdist"

STEADY = "def test_steady() -> None:\n    pass\n"
FAULT = "def test_fault() -> None:\n    assert 1 == 2, 'a fault'\n"
# Fails until a test of the same name has left its mark: the second time.
RACE = """
from pathlib import Path

def test_race_{number}() -> None:
    mark = Path(__file__).with_name("mark{number}")
    first = not mark.exists()
    mark.touch()
    assert not first, "lost race {number}"
"""
BROKEN_FIXTURE = """
import pytest
from pathlib import Path

@pytest.fixture
def server() -> None:
    mark = Path(__file__).with_name("server")
    first = not mark.exists()
    mark.touch()
    assert not first, "the server was slow"

def test_with_server(server: None) -> None:
    pass
"""


def project(folder: Path, files: Mapping[str, str]) -> Path:
    """A folder of tests with the hook of this repository's."""
    conftest = "from support.failures import pytest_terminal_summary  # noqa: F401\n"
    pythonpath = f"[pytest]\npythonpath = {ROOT / 'tests'}\n"
    for name, text in {**files, "conftest.py": conftest, "pytest.ini": pythonpath}.items():
        (folder / name).write_text(text)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools/run_tests.py", *arguments]
    # Not as a part of the run that this test belongs to, and without plugins that take a second to import.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def last_line(ended: subprocess.CompletedProcess[str]) -> str:
    return ended.stdout.splitlines()[-1]


def test_a_test_that_passes_alone_is_flaky_and_one_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    files = {"test_a.py": STEADY + RACE.format(number=1), "test_b.py": STEADY}

    ended = run(project(tmp_path, files), "--pytest", PYTEST)

    assert ended.returncode == 0, ended.stdout
    assert "\nFLAKY test_a.py::test_race_1\n" in ended.stdout
    assert "lost race 1" in ended.stdout.rpartition("The first failure:")[2]
    assert "1 flaky, of at most 5 that are forgiven" in ended.stdout
    assert last_line(ended) == "3 passed, 0 failed, 0 skipped"

    # The race is won now; the fault stays one, in several processes as well.
    files["test_b.py"] = STEADY + FAULT
    ended = run(project(tmp_path, files), "--pytest", f"{PYTEST} -n2")

    assert ended.returncode == 1
    assert "\nFAILED test_b.py::test_fault\n" in ended.stdout
    assert "FLAKY" not in ended.stdout
    assert last_line(ended) == "3 passed, 1 failed, 0 skipped"


def test_a_fixture_that_fails_at_first_is_flaky_as_well(tmp_path: Path) -> None:
    ended = run(project(tmp_path, {"test_c.py": BROKEN_FIXTURE}), "--pytest", PYTEST)

    assert ended.returncode == 0, ended.stdout
    assert "\nFLAKY test_c.py::test_with_server\n" in ended.stdout
    assert last_line(ended) == "1 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(("races", "status"), [(5, 0), (6, 1)])
def test_at_most_five_flaky_tests_are_forgiven(tmp_path: Path, races: int, status: int) -> None:
    files = {"test_d.py": STEADY + "".join(RACE.format(number=number) for number in range(races))}

    ended = run(project(tmp_path, files), "--pytest", PYTEST)

    assert ended.returncode == status, ended.stdout
    expected = {0: "6 passed, 0 failed, 0 skipped", 1: "1 passed, 6 failed, 0 skipped"}
    assert last_line(ended) == expected[status]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("import nothing_of_this_name\n", ""),
        (STEADY, "--no-such-option"),
        ("import os\n\ndef test_x(): os._exit(3)\n", ""),
    ],
    ids=["error in collection", "wrong option", "process that ends"],
)
def test_a_run_that_breaks_fails_whatever_its_tests_do(tmp_path: Path, text: str, arguments: str) -> None:
    ended = run(project(tmp_path, {"test_e.py": text}), "--pytest", f"{PYTEST} {arguments}")

    assert ended.returncode == 1, ended.stdout
    assert "BROKEN " in ended.stdout or "FAILED " in ended.stdout
    assert " 0 failed" not in last_line(ended)


def test_pytest_is_given_the_chosen_lanes_and_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = "import os\n\ndef test_lanes() -> None:\n    assert os.environ['SEQFERRY_TEST_LANES'] == 'samba,guest'\n"
    monkeypatch.setenv("SEQFERRY_TEST_LANES", "guest samba")

    ended = run(project(tmp_path, {"test_f.py": test}), "--pytest", PYTEST, "--lanes")

    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("Lanes that run:\n    samba: SEQFERRY_TEST_LANES=guest samba\n    guest: ")
    [ran, left_out] = ended.stdout.splitlines()[-4:-2]
    assert ran == "Lanes that ran: samba, guest"
    assert left_out.startswith("Lanes that did not run: suites, ")


def test_rust_tests_are_run_again_alone_and_a_crash_is_a_fault(tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed (https://rustup.rs)")
    (tmp_path / "tests").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "races"\nversion = "0.1.0"\nedition = "2024"\n')
    (tmp_path / "src/lib.rs").write_text("")
    race = 'if std::fs::exists("mark").unwrap() { return } std::fs::write("mark", "").unwrap(); panic!("lost a race")'
    tests = f"#[test]\nfn steady() {{}}\n#[test]\nfn race() {{ {race} }}\n"
    (tmp_path / "tests/one.rs").write_text(tests)

    ended = run(tmp_path, "--cargo", "cargo test --offline --tests")

    assert ended.returncode == 0, ended.stdout
    assert "\nFLAKY -p races --test one race\n" in ended.stdout or "\nFLAKY --test one race\n" in ended.stdout
    assert "lost a race" in ended.stdout.rpartition("The first failure:")[2]
    assert last_line(ended) == "2 passed, 0 failed, 0 skipped"

    (tmp_path / "tests/two.rs").write_text("#[test]\nfn ends() { std::process::abort() }\n")
    ended = run(tmp_path, "--cargo", "cargo test --offline --tests")

    assert ended.returncode == 1
    assert "BROKEN cargo test" in ended.stdout
    assert last_line(ended) == "2 passed, 1 failed, 0 skipped"
