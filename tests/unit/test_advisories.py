"""What ``make supply-chain`` finds in databases of advisories, and what it says when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ADVISORY = """
id: PYSEC-0000-1
details: A planted advisory.
affected:
- package: {name: Typer, ecosystem: PyPI}
  ranges:
  - type: ECOSYSTEM
    events:
    - introduced: "0"
    - fixed: "%s"
"""


CRATE_ADVISORY = """```toml
[advisory]
id = "RUSTSEC-2099-0001"
package = "bytes"
date = "2026-01-01"

[versions]
patched = ["%s"]
```

# A planted advisory
"""


def look(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools/advisories.py", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def database(folder: Path, fixed: str, *, date: str = "now") -> Path:
    """A clone of PyPA's database with one advisory about typer, committed on a date."""
    (folder / "vulns/typer").mkdir(parents=True)
    (folder / "vulns/typer/PYSEC-0000-1.yaml").write_text(ADVISORY % fixed)
    return committed(folder, date)


def committed(folder: Path, date: str = "now") -> Path:
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e"]
    dates = {} if date == "now" else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "planted"]):
        subprocess.run([*git, *words], check=True, env={**os.environ, **dates})
    return folder


def test_advisories_that_are_not_looked_at_are_said_to_be_skipped() -> None:
    for arguments, code in (((), 0), (("--require",), 1)):
        ended = look(*arguments, SEQFERRY_ADVISORY_DB="", SEQFERRY_PYPA_ADVISORY_DB="")

        assert ended.returncode == code
        assert ended.stdout.count("SKIPPED") == 2
        assert "SEQFERRY_ADVISORY_DB" in ended.stdout


@pytest.mark.parametrize(("fixed", "found"), [("9999", True), ("0.0.1", False)])
def test_a_pinned_package_is_found_in_an_advisory_that_is_about_its_version(
    tmp_path: Path, fixed: str, found: bool
) -> None:
    ended = look(SEQFERRY_ADVISORY_DB="", SEQFERRY_PYPA_ADVISORY_DB=str(database(tmp_path, fixed)))

    assert ended.returncode == int(found), ended.stderr
    assert ("PYSEC-0000-1: A planted advisory." in ended.stderr) == found


def test_a_database_that_is_out_of_date_is_a_failure(tmp_path: Path) -> None:
    old = database(tmp_path / "old", "0.0.1", date="2020-01-01T00:00:00Z")
    (tmp_path / "none").mkdir()

    for folder, why in ((old, "days old"), (tmp_path / "none", "no git clone")):
        ended = look(SEQFERRY_ADVISORY_DB="", SEQFERRY_PYPA_ADVISORY_DB=str(folder))
        assert (ended.returncode, why in ended.stderr) == (1, True), ended.stderr


@pytest.mark.parametrize(("patched", "found"), [(">= 9999.0.0", True), (">= 0.0.1", False)])
def test_a_locked_crate_is_found_in_an_advisory_that_is_about_its_version(
    tmp_path: Path, patched: str, found: bool
) -> None:
    (tmp_path / "crates/bytes").mkdir(parents=True)
    (tmp_path / "crates/bytes/RUSTSEC-2099-0001.md").write_text(CRATE_ADVISORY % patched)

    ended = look(SEQFERRY_ADVISORY_DB=str(committed(tmp_path)), SEQFERRY_PYPA_ADVISORY_DB="")

    assert ended.returncode == int(found), ended.stderr
    assert ("RUSTSEC-2099-0001" in ended.stderr) == found


def test_an_empty_database_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()

    ended = look(SEQFERRY_ADVISORY_DB=str(committed(tmp_path)), SEQFERRY_PYPA_ADVISORY_DB="")

    assert (ended.returncode, "holds no advisories" in ended.stderr) == (1, True)
