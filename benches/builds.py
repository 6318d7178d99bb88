"""Another build of this repository: a ref in a throw-away git worktree, with its own venv and target folder.

As a program (``builds.py REF``) it says whether the ref can be built: status 0, or 2 and one line.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INHERITED: Final = (
    *("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"),
    *("CARGO_TARGET_DIR", "VIRTUAL_ENV", "PYTHONPATH", "BASE", "ARGS"),
)
"""Variables of the ``make`` or the environment around us that would reach into the other build."""


class RefusedError(Exception):
    """The ref cannot be built. One line that says why and what to do."""


@dataclass(frozen=True)
class Target:
    """A ref that can be built."""

    root: Path
    """Root of the repository."""
    ref: str
    commit: str
    """All of its digits."""
    has_simulator: bool


@dataclass(frozen=True)
class BuiltTarget:
    commit: str
    environment: Mapping[str, str]
    """Variables by which the benches find the build's programs."""


def commit(root: Path) -> str:
    """The commit that is checked out, with ``, changed`` when files differ from it; ``unknown`` outside of git."""
    revision = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no").stdout
    if revision.returncode:
        return "unknown"
    return revision.stdout.strip() + (", changed" if changed else "")


def find(root: Path, ref: str) -> Target:
    """Looks at a ref without building it.

    Raises:
        RefusedError: the ref does not exist, or holds nothing that can be built.
    """
    ended = _git(root, "rev-parse", "--git-dir")
    if ended.returncode:
        raise RefusedError(f"BASE={ref}: {root.name} is no git repository, so there is no other build to compare with")
    ended = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    commit = ended.stdout.strip()
    if ended.returncode:
        raise RefusedError(f"BASE={ref}: there is no such commit, branch or tag; `git log --oneline` lists commits")
    ended = _git(root, "show", f"{commit}:Makefile")
    if ended.returncode:
        raise RefusedError(f"BASE={ref}: that tree has no Makefile, so it cannot be built; name a later commit")
    if not any(line.startswith("build:") for line in ended.stdout.splitlines()):
        raise RefusedError(f"BASE={ref}: the Makefile of that tree has no target `build`; name a later commit")
    return Target(root, ref, commit, has_simulator="s3sim" in ended.stdout)


@contextmanager
def built(target: Target, folder: Path) -> Iterator[BuiltTarget]:
    """Builds the ref in ``folder``, which is removed at the end; what an earlier run has left there is removed first.

    What this checkout has compiled is copied, so that only what differs is compiled; cargo decides what that is.

    Raises:
        RefusedError: the build fails, or another run is at work in ``folder``.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError("another comparison of builds runs in this checkout: wait for its end") from None
        _remove(target.root, folder)
        try:
            ended = _git(target.root, "worktree", "add", "--quiet", "--detach", str(folder), target.commit)
            if ended.returncode:
                raise RefusedError(f"BASE={target.ref}: git does not check it out: {ended.stderr.strip()}")
            compiled = target.root / "target"
            if compiled.is_dir():
                shutil.copytree(compiled, folder / "target", symlinks=True, ignore=shutil.ignore_patterns("wheels"))
            _make(target, folder, "build")
            environment = {"SEQFERRY_COMMAND": str(folder / ".venv" / "bin" / "seqferry")}
            if target.has_simulator:
                _make(target, folder, ".tools/bin/s3sim")
                environment["SEQFERRY_S3SIM"] = str(folder / ".tools" / "bin" / "s3sim")
            yield BuiltTarget(target.commit[:12], environment)
        finally:
            _remove(target.root, folder)


def _make(target: Target, folder: Path, goal: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    command = ["make", "--no-print-directory", goal, f"PYTHON={sys.executable}"]
    ended = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False)
    if ended.returncode:
        raise RefusedError(f"BASE={target.ref}: `make {goal}` ended with status {ended.returncode}; it said why above")


def _remove(root: Path, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    _git(root, "worktree", "prune")


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Not by GIT_DIR, which a hook around us may have set for its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False, env=environment)


if __name__ == "__main__":
    try:
        find(Path(__file__).resolve().parents[1], sys.argv[1])
    except RefusedError as refused:
        print(refused, file=sys.stderr)
        sys.exit(2)
