"""Building another ref beside a checkout: with git and make as they are, on small repositories."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import builds
from builds import RefusedError
from support.run import ROOT

# What `make build` makes there: a command that tells its build, and what reached it of the world around.
MAKEFILE = """
build:
\tmkdir -p .venv/bin
\tprintf '#!/bin/sh\\necho {version}; echo [$(OUTER)] [$(BASE)]' > .venv/bin/seqferry
\tchmod +x .venv/bin/seqferry
\tcp target/compiled .venv/compiled 2>/dev/null || true
.tools/bin/s3sim:
\tmkdir -p .tools/bin && touch $@
"""


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    ended = subprocess.run(["git", "-C", root, *identity, *words], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three commits: without a Makefile (``bare``), one that cannot be built, and two versions."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for tag, makefile in (
        ("bare", None),
        ("other", "all:\n\ttrue\n"),
        ("broken", "build:\n\tfalse\n"),
        ("old", MAKEFILE.format(version="seqferry 0.1").replace(".tools/bin/s3sim", ".tools/bin/other")),
        ("new", MAKEFILE.format(version="seqferry 0.2")),
    ):
        (folder / "README").write_text(tag)
        if makefile is not None:
            (folder / "Makefile").write_text(makefile)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", tag)
        git(folder, "tag", tag)
    return folder


def said(command: str) -> list[str]:
    return subprocess.run([command], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_ref_is_built_apart_and_removed_at_the_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "target").mkdir()
    (root / "target" / "compiled").write_text("by this checkout")
    (root / "README").write_text("changed here")
    monkeypatch.setenv("MAKEFLAGS", " -- OUTER=reached BASE=old")
    monkeypatch.setenv("BASE", "old")
    folder = root / ".tools" / "base"

    with builds.built(builds.find(root, "old"), folder) as old:
        assert old.commit == git(root, "rev-parse", "old")[:12]
        assert said(old.environment["SEQFERRY_COMMAND"]) == ["seqferry 0.1", "[] []"]
        assert "SEQFERRY_S3SIM" not in old.environment
        assert (folder / "README").read_text() == "old"
        assert (folder / ".venv" / "compiled").read_text() == "by this checkout"
        assert str(folder) in git(root, "worktree", "list")

    assert not folder.exists()
    assert str(folder) not in git(root, "worktree", "list")
    assert (root / "README").read_text() == "changed here"


def test_a_build_with_a_simulator_brings_it(root: Path) -> None:
    with builds.built(builds.find(root, "new"), root / ".tools" / "base") as new:
        assert Path(new.environment["SEQFERRY_S3SIM"]).is_file()


def test_what_a_killed_run_has_left_is_removed_first(root: Path) -> None:
    folder = root / ".tools" / "base"
    target = builds.find(root, "old")
    with builds.built(target, folder):
        shutil.copytree(folder, root / "kept", symlinks=True)
    # As after a kill: the folder is there, and git knows of it.
    git(root, "worktree", "add", "--quiet", "--detach", str(folder), "new")
    (folder / "rubbish").touch()

    with builds.built(target, folder):
        assert not (folder / "rubbish").exists()
        assert (folder / "README").read_text() == "old"


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("nowhere", "no such commit, branch or tag"),
        ("--help", "no such commit, branch or tag"),
        ("old:Makefile", "no such commit, branch or tag"),
        ("bare", "has no Makefile"),
        ("other", "has no target `build`"),
    ],
)
def test_a_ref_that_cannot_be_built_is_refused_at_once_in_one_line(root: Path, ref: str, why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        builds.find(root, ref)

    assert why in str(refused.value)
    assert f"BASE={ref}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_make_refuses_a_wrong_ref_before_it_builds_anything(tmp_path: Path) -> None:
    # A copy of what is needed for it, so that nothing is built here when it is not refused.
    (tmp_path / "benches").mkdir()
    for name in ("Makefile", "benches/builds.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("tools", "crates"):
        shutil.copytree(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    command = ["make", "bench", "BASE=nowhere", f"PYTHON={sys.executable}"]

    # Not with the flags of a make that runs these tests: told to keep going, it would.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    lines = ended.stderr.splitlines()
    assert lines[0] == "BASE=nowhere: there is no such commit, branch or tag; `git log --oneline` lists commits"
    assert [line for line in lines[1:] if not line.startswith("make")] == []
    assert ended.stdout == ""
    assert not (tmp_path / ".venv").exists()


def test_outside_of_git_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="is no git repository"):
        builds.find(tmp_path, "main")


def test_a_build_that_fails_is_told_and_leaves_nothing(root: Path) -> None:
    folder = root / ".tools" / "base"

    with (
        pytest.raises(RefusedError, match=r"BASE=broken: `make build` ended with status 2"),
        builds.built(builds.find(root, "broken"), folder),
    ):
        pytest.fail("it was built")

    assert not folder.exists()


def test_two_comparisons_at_once_are_refused(root: Path) -> None:
    folder = root / ".tools" / "base"
    folder.parent.mkdir()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(RefusedError, match="another comparison"), builds.built(builds.find(root, "old"), folder):
            pytest.fail("it was built")
