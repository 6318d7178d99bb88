"""Units for systemd: accepted without a word, and with few rights."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
OF_AWS = [*sorted((ROOT / "deploy/aws").glob("*.service")), *sorted((ROOT / "deploy/aws").glob("*.timer"))]
MOST_EXPOSED = 20
"""Tenths of a point of ``systemd-analyze security``; a plain service has 96."""

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def verified(text: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit in a root that has nothing but what the unit names."""
    units = folder / "etc/systemd/system"
    units.mkdir(parents=True)
    (units / name).write_text(text)
    for target in ("multi-user", "network-online", "sysinit", "basic", "shutdown", "timers", "time-set", "time-sync"):
        (units / f"{target}.target").write_text(f"[Unit]\nDescription={target}\nDefaultDependencies=no\n")
    for unit in OF_AWS:  # the service of the timer
        if not (units / unit.name).exists():
            (units / unit.name).write_text(unit.read_text())
    for place in ("bin/seqferry", "aws/publish.py", "aws/drain.py"):
        program = folder / "opt/seqferry" / place
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return analyze("verify", f"--root={folder}", "--man=no", name.replace("@.", "@1."))


def test_there_is_a_unit_for_each_kind_of_process() -> None:
    commands = {re.search(r"ExecStart=\S+ (\w+(?: serve)?)", unit.read_text())[1] for unit in UNITS}  # type: ignore[index]

    assert commands == {"serve", "worker", "gateway serve"}


@pytest.mark.parametrize("unit", [*UNITS, *OF_AWS], ids=lambda unit: unit.name)
def test_systemd_has_nothing_to_say_of_a_unit(unit: Path, tmp_path: Path) -> None:
    said = verified(unit.read_text(), unit.name, tmp_path)

    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("wrong", ["WatchdogSecs=30", "WatchdogSec=soon", "ProtectSystem=very", "SystemCallFilter=@no"])
def test_a_wrong_line_would_be_noticed(wrong: str, tmp_path: Path) -> None:
    text = UNITS[0].read_text().replace("\nWatchdogSec=30\n", f"\n{wrong}\n")

    assert verified(text, UNITS[0].name, tmp_path).stderr != ""


@pytest.mark.parametrize("unit", [*UNITS, *OF_AWS[:-1]], ids=lambda unit: unit.name)
def test_a_unit_has_few_rights(unit: Path, tmp_path: Path) -> None:
    named = tmp_path / unit.name.replace("@.", "@1.")
    named.write_text(unit.read_text())

    said = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", named)

    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_started_again_for_ever_and_watched(unit: Path) -> None:
    lines = unit.read_text().splitlines()

    assert {
        "Type=notify",
        "WatchdogSec=30",
        # A worker that was drained stays down.
        f"Restart={'on-failure' if unit.name == 'seqferry-worker@.service' else 'always'}",
        "StartLimitIntervalSec=0",
        "TimeoutStartSec=infinity",
        "KillMode=mixed",
    } <= {*lines}
