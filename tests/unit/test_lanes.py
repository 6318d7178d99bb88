"""Which heavy tests run (``tools/lanes.py``): the choice, the table of lanes, and what pytest leaves out by it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import lanes
import pytest
from lanes import Choice, Lane, changed_paths, choose

from support.lanes import leave_out

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = lanes.read_lanes()
TESTS: Final = sorted({test for lane in TABLE.values() for test in lane.tests})

ALWAYS: Final = {
    # Kills of the core, and its limits under faults.
    "tests/e2e/disk/test_disk_kills.py::test_a_download_killed_again_and_again_leaves_whole_files_only",
    "tests/e2e/disk/test_disk_kills.py::test_an_upload_killed_again_and_again_repeats_nothing_that_was_finished",
    "tests/e2e/disk/test_spoiled_uploads.py::test_what_is_spoiled_every_time_fails_as_a_mismatch_and_is_not_left",
    "tests/e2e/mirror/test_faults.py::test_a_service_that_is_down_for_good_fails_the_objects_as_retryable",
    "tests/e2e/mirror/test_kills.py::test_killed_20_times_nothing_is_lost_leaked_or_repeated",
    # Rules that any change can break.
    "tests/e2e/cli/test_cli_tpslimit.py::test_no_window_has_more_requests_than_the_limit",
    "tests/e2e/disk/test_disk_round_trips.py::test_20000_odd_names_go_up_and_come_back",
    "tests/integration/db/test_state_machine.py::TestTransferRows",
    # The commands of the first pages that a user reads.
    "tests/e2e/test_readme.py::test_the_sessions_print_what_the_pages_say",
}
"""Long tests that run whatever has changed."""

NOTHING: Final[Sequence[str]] = ()


@pytest.mark.parametrize(
    ("changes", "commits", "wanted", "runs"),
    [
        ({"a": ["x"], "b": NOTHING, "c": NOTHING}, 0, None, {"a": "changed since it passed: x", "b": "its turn"}),
        ({"a": list("xyz"), "b": NOTHING}, 1, None, {"a": "changed since it passed: x and 2 more", "b": "its turn"}),
        ({"a": NOTHING, "b": NOTHING, "c": NOTHING}, 1001, None, {"c": "its turn"}),
        ({"a": NOTHING, "b": NOTHING, "c": NOTHING}, 1002, None, {"a": "its turn"}),
        # A clone without history: all.
        ({"a": None, "b": None}, 7, None, dict.fromkeys("ab", "no commit is known here at which it passed")),
        ({"a": None, "b": ["x"], "c": NOTHING}, 7, "none", {}),
        ({"a": NOTHING, "b": NOTHING}, 7, "all", dict.fromkeys("ab", "SEQFERRY_TEST_LANES=all")),
        ({"a": NOTHING, "b": ["x"], "c": NOTHING}, 0, "c, a", dict.fromkeys("ac", "SEQFERRY_TEST_LANES=c, a")),
        ({"a": NOTHING, "b": ["x"]}, 0, "", {}),
    ],
)  # fmt: skip
def test_a_lane_runs_for_what_changed_or_in_its_turn_or_by_name(
    changes: dict[str, Sequence[str] | None], commits: int, wanted: str | None, runs: dict[str, str]
) -> None:
    choice = choose(changes, commits, wanted)

    assert choice.runs == runs
    assert choice.left_out == tuple(lane for lane in changes if lane not in runs)


def test_each_lane_has_its_turn_over_as_many_commits() -> None:
    changes = {"a": ["x"], **dict.fromkeys("bcd", NOTHING)}

    assert {name for commits in range(3) for name in choose(changes, commits).runs} == set("abcd")


def test_a_choice_names_what_runs_and_what_does_not() -> None:
    choice = Choice({"a": "its turn"}, ("b", "c"))

    assert (choice.names, Choice({}, ("a",)).names) == ("a", "none")
    assert str(choice) == "Lanes that run:\n    a: its turn\nLanes that do not run: b, c"
    assert choice.summary == "Lanes that ran: a\nLanes that did not run: b, c"


def test_a_name_of_no_lane_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"No lane has the name d. Lanes: a, b"):
        lanes.named("a,d", ["a", "b"])


@pytest.mark.parametrize(
    ("nodeid", "is_of_lane"),
    [
        ("tests/e2e/nextflow/test_a.py::test_x[1]", True),
        ("tests/e2e/nextflow_more/test_a.py::test_x", False),
        ("tests/e2e/test_b.py::test_y", True),
        ("tests/e2e/test_b.py::test_y[minio-1]", True),
        ("tests/e2e/test_b.py::test_y_and_z", False),
        ("tests/e2e/test_b.py::test_x", False),
    ],
)
def test_a_lane_has_the_tests_that_it_names(nodeid: str, is_of_lane: bool) -> None:
    assert Lane("", ("tests/e2e/nextflow", "tests/e2e/test_b.py::test_y"), ()).has(nodeid) == is_of_lane


# --- the working tree against a commit ------------------------------------------------------------------------------

LANE: Final = Lane("", ("heavy/test_a.py::test_x",), ("code", ":(glob)docs/*.md"), versions=("A_VERSION", "B"))


class Repository:
    """A repository with a lane, in which it passed at the first commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch", "main")
        for name in ("heavy/test_a.py", "heavy/test_b.py", "code/deep/a", "docs/a.md", "docs/deep/a.md", "other"):
            self.write(name, name)
        self.write("Makefile", "A_VERSION := 1\nB := 1\nOTHER := 1\n")
        self.write(lanes.TABLE, '[lane]\nshows = ""\ntests = ["heavy/test_a.py"]\nguards = ["code"]\n')
        self.passed = self.commit()

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *identity, *words], cwd=self.root, capture_output=True, text=True, check=True
        ).stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")
        return self.git("rev-parse", "HEAD")

    def changed(self) -> list[str] | None:
        return changed_paths(LANE, self.passed, self.root)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "repository"
    root.mkdir()
    return Repository(root)


@pytest.mark.parametrize(
    ("name", "text", "changed"),
    [
        ("code/deep/a", "new", ["code/deep/a"]),
        ("code/new", "new", ["code/new"]),
        ("docs/a.md", "new", ["docs/a.md"]),
        ("heavy/test_a.py", "new", ["heavy/test_a.py"]),
        ("Makefile", "A_VERSION := 2\nB := 1\nOTHER := 1\n", ["Makefile"]),
        ("Makefile", "A_VERSION := 1\nB := 1\nOTHER := 2\n# A_VERSION := 2\n", []),
        ("docs/deep/a.md", "new", []),
        ("heavy/test_b.py", "new", []),
        ("other", "new", []),
        ("code/deep/a", "code/deep/a", []),
    ],
)
def test_a_change_of_a_guarded_path_is_found_before_and_after_its_commit(
    repository: Repository, name: str, text: str, changed: list[str]
) -> None:
    repository.write(name, text)
    assert repository.changed() == changed

    repository.write("later", "")
    repository.commit()
    assert repository.changed() == changed


def test_what_is_moved_away_or_removed_is_a_change_and_what_is_taken_back_is_none(repository: Repository) -> None:
    repository.git("mv", "code/deep/a", "elsewhere")
    (repository.root / "docs/a.md").unlink()
    assert repository.changed() == ["code/deep/a", "docs/a.md"]

    repository.commit()
    repository.git("revert", "--no-edit", "HEAD")
    assert repository.changed() == []


def test_a_commit_that_git_cannot_compare_with_is_unknown(repository: Repository, tmp_path: Path) -> None:
    repository.write("other", "new")
    repository.commit()
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(shallow))
    assert changed_paths(LANE, repository.passed, shallow) is None

    for commit in (None, "0" * 40, "no commit"):
        assert changed_paths(LANE, commit, repository.root) is None
    assert changed_paths(LANE, repository.passed, tmp_path) is None

    repository.git("checkout", "--quiet", "-b", "branch", repository.passed)
    repository.write("other", "branch")
    of_branch = repository.commit()
    repository.git("checkout", "--quiet", "main")
    assert changed_paths(LANE, of_branch, repository.root) is None


def test_the_choice_follows_from_what_is_recorded(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lanes.VARIABLE, raising=False)
    unknown = lanes.current_choice(repository.root).runs
    refused = lanes.record("lane", repository.passed, repository.root)
    after_pass = lanes.current_choice(repository.root).runs
    repository.write("code/deep/a", "new")

    assert unknown == {"lane": "no commit is known here at which it passed"}
    assert refused is None
    assert json.loads((repository.root / lanes.PASSED).read_text()) == {"lane": repository.passed}
    assert after_pass == {"lane": "its turn"}
    assert lanes.current_choice(repository.root).runs == {"lane": "changed since it passed: code/deep/a"}
    monkeypatch.setenv(lanes.VARIABLE, "none")
    assert lanes.current_choice(repository.root).runs == {}

    # It ran on something else than the commit.
    (repository.root / lanes.PASSED).unlink()
    refused = lanes.record("lane", repository.passed, repository.root)
    assert refused == "not as in the commit at which it began: code/deep/a"
    assert not (repository.root / lanes.PASSED).exists()
    assert lanes.record("lane", repository.commit(), repository.root) is None


# --- the lanes of this repository -----------------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
def test_each_test_of_a_lane_exists(test: str) -> None:
    path, _, function = test.partition("::")

    assert (ROOT / path).exists()
    assert not function or re.search(rf"^def {function}\(", (ROOT / path).read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("name", TABLE)
def test_each_path_tool_and_version_of_a_lane_exists(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {word for line in re.findall(r"^(\S.*?) ?&?:(?!=)", makefile, re.MULTILINE) for word in line.split()}
    tools = {tool.replace(".tools/bin/", "$(TOOLS)/") for tool in TABLE[name].tools}

    assert tools <= targets
    assert not [one for one in TABLE[name].versions if not re.search(rf"^{one} := ", makefile, re.MULTILINE)]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git: guarded paths are not looked up")
    for guard in TABLE[name].guards:
        found = subprocess.run(["git", "ls-files", "--", guard], cwd=ROOT, capture_output=True, text=True, check=True)
        assert found.stdout, f"{guard} is the path of no file"


def test_what_is_recorded_are_commits_of_lanes() -> None:
    passed = lanes.read_passed(ROOT)

    assert set(passed) <= set(TABLE)
    assert not [commit for commit in passed.values() if not re.fullmatch("[0-9a-f]{40}", commit)]


def test_each_long_test_is_in_a_lane_or_always_run() -> None:
    marked = re.compile(r"^@pytest\.mark\.long\n(?:@.*\n)*def (\w+)|^(\w+) = pytest\.mark\.long\(", re.MULTILINE)
    long = {
        f"{file.relative_to(ROOT)}::{found[1] or found[2]}"
        for file in (ROOT / "tests").rglob("test_*.py")
        for found in marked.finditer(file.read_text())
    }

    assert {test for test in long if not any(lane.has(test) for lane in TABLE.values())} <= ALWAYS


@pytest.mark.parametrize(
    ("chosen", "is_kept"),
    [("none", False), ("samba", False), ("samba,chaos", True), ("all", True), (None, True)],
)
def test_tests_of_lanes_that_are_not_chosen_are_left_out(
    chosen: str | None, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lanes.VARIABLE, chosen) if chosen is not None else monkeypatch.delenv(lanes.VARIABLE, False)
    heavy, other = (SimpleNamespace(nodeid=name) for name in (TABLE["chaos"].tests[0], "tests/unit/test_a.py::test_x"))
    left_out: list[SimpleNamespace] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    items = [heavy, other]

    leave_out(cast("Any", SimpleNamespace(hook=hook)), cast("Any", items))

    assert (items, left_out) == (([heavy, other], []) if is_kept else ([other], [heavy]))


def test_a_run_of_pytest_leaves_lanes_out() -> None:
    file = "tests/e2e/test_chart_lint.py"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n0", "--collect-only", "-q", file]

    ended = subprocess.run(
        command, cwd=ROOT, env={**variables, lanes.VARIABLE: "none"}, capture_output=True, text=True, check=False
    )

    assert [TABLE["chart"].tests[0], ended.returncode] == [file, pytest.ExitCode.NO_TESTS_COLLECTED]
    assert "1 deselected" in ended.stdout
