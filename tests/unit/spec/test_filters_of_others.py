"""Include and exclude beside the AWS CLI, s5cmd and rclone: each is run on the same files, and must leave out the same.

Where s5cmd and rclone follow other rules, the cases are not theirs; ``docs/use/coming-from.md`` says which rules hold
here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from seqferry.model.option_groups import Names
from seqferry.spec.selection import Conditions, build_matcher

ROOT = Path(__file__).parents[3]
KEYS = (
    "a.txt", "A.TXT", "b.log", "c.bam", ".hid", "sp ace.txt", "x1.txt", "x[1].txt", "a.txt.bak", "d/a.txt", "d/b.log",
    "d/e/a.txt", "d/e/c.bam", "d/tmp/a.txt", "dd/a.txt", "tmp/a.txt",
)  # fmt: skip

CASES = {
    1: "- *.txt",
    2: "+ *.txt",
    3: "- *|+ *.txt",
    4: "+ *.txt|- *",
    5: "- *|+ *.txt|- d/*",
    6: "- d/*|+ d/a.txt",
    7: "- a.txt",
    8: "- /a.txt",
    9: "- d",
    10: "- d/",
    11: "- d/*",
    12: "- d/**",
    13: "- */a.txt",
    14: "- **/a.txt",
    15: "- tmp/*",
    16: "- ?.txt",
    17: "- x[1].txt",
    18: "- x[[]1].txt",
    19: "- {a.txt,b.log}",
    20: "- *.TXT|- .*",
}
"""Rules in their order."""

AS_S5CMD = (1, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20)
AS_RCLONE = (1, 9, 12, 13, 14, 17, 20)
"""Cases in which they leave out what the AWS CLI does."""


def _rules(case: int) -> tuple[str, ...]:
    return tuple(CASES[case].split("|"))


def _ours(case: int) -> set[str]:
    test = build_matcher(Conditions(names=Names(_rules(case)), strip="run/"))
    assert test is not None
    return {key for key in KEYS if test(f"run/{key}", 1, 0.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run")
    for key in KEYS:
        (made / key).parent.mkdir(parents=True, exist_ok=True)
        (made / key).write_text("x")
    return made


def _options(case: int) -> list[str]:
    return [word for rule in _rules(case) for word in ({"+": "--include", "-": "--exclude"}[rule[0]], rule[2:])]


@pytest.mark.skipif(find_spec("awscli") is None, reason="needs the AWS CLI (pip install awscli)")
def test_the_same_as_the_aws_cli(folder: Path) -> None:
    # One process for all cases: importing the AWS CLI takes most of the time.
    program = "\n".join(
        [
            "from awscli.clidriver import create_clidriver",
            "driver = create_clidriver()",
            *(
                f"print('case', {case}, flush=True); driver.main({['s3', 'cp', str(folder), 's3://b/', '--recursive', '--dryrun', *_options(case)]!r})"  # noqa: E501 - one call
                for case in CASES
            ),
        ]
    )
    env = {"PATH": "/usr/bin:/bin", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env, timeout=300
    )

    found: dict[int, set[str]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("case "):
            found[int(line.split()[1])] = kept = set()
        elif " to s3://b/" in line:
            kept.add(line.rpartition(" to s3://b/")[2])
    assert found == {case: _ours(case) for case in CASES}


@pytest.mark.parametrize("case", AS_S5CMD)
def test_the_same_as_s5cmd(case: int, folder: Path) -> None:
    s5cmd = shutil.which("s5cmd") or shutil.which(str(ROOT / ".tools/bin/s5cmd"))
    if s5cmd is None:
        pytest.skip("needs s5cmd (make tools)")
    env = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    command = [s5cmd, "--dry-run", "cp", *_options(case), f"{folder}/", "s3://b/"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)

    kept = {line.rpartition(" s3://b/")[2] for line in ran.stdout.splitlines() if line.startswith("cp ")}
    assert kept == _ours(case), ran.stderr


@pytest.mark.parametrize("case", AS_RCLONE)
def test_the_same_as_rclone(case: int, folder: Path) -> None:
    rclone = shutil.which("rclone") or shutil.which(str(ROOT / ".venv/bin/rclone"))
    if rclone is None:
        pytest.skip("needs rclone")
    rules = [word for rule in _rules(case) for word in ("--filter", rule)]
    ran = subprocess.run(
        [rclone, "lsf", "-R", "--files-only", "--config", "/dev/null", *rules, str(folder)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert set(ran.stdout.splitlines()) == _ours(case), ran.stderr
