"""The commands of the pages on benches, run as written: on real folders and reports, else with ``--dry-run``."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import run, seqferry
from support.run import ROOT, SCRIPTS, TOOLS
from support.servers import S3Server

PAGES = sorted(ROOT.glob("docs/operate/bench-*.md"))
COMMANDS = [
    " ".join(command.split("#")[0].replace("\\\n", " ").split())
    for page in PAGES
    for block in re.findall(r"```(?:console)?\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for command in re.findall(r"^(?:\$ )?(seqferry bench (?:.*\\\n)*.*)$", block, flags=re.MULTILINE)
]


def test_each_page_has_commands() -> None:
    assert len(PAGES) == 3
    assert len(COMMANDS) >= 14


@pytest.mark.long
def test_the_commands_of_the_pages_run_as_written(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only: mount a tmpfs at /dev/shm")
    environment = {**versitygw.environment(), "PATH": f"{TOOLS}:{SCRIPTS}:{os.environ['PATH']}"}
    data = make_bucket(versitygw)
    versitygw.client().put_object(Bucket=data, Key="run42/input/reads.fastq", Body=b"@r\nACGT\n")

    def obey(command: str) -> str:
        done = run(["sh", "-c", command], environment=environment, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout + done.stderr

    with tempfile.TemporaryDirectory(dir=memory) as beta:
        places = {
            **dict.fromkeys(("s3://bucket/", "s3://theirs/"), f"s3://{data}/"),
            "s3://ours/": f"s3://{make_bucket(versitygw)}/",
            **{name: str(tmp_path / name.rpartition("/")[2]) for name in ("/mnt/alpha", "/mnt/share", "/scratch")},
            **dict.fromkeys(("/mnt/beta", "/data"), beta),
        }
        for name in ("alpha", "share", "scratch"):
            (tmp_path / name).mkdir()

        def here(command: str) -> str:
            for name, place in places.items():
                command = re.sub(rf"(?<=[ =]){re.escape(name)}(?=[ /]|$|(?<=/))", place, f"{command} ").rstrip()
            return command.replace("seqferry ", f"{seqferry()} ", 1)

        quick = "--size 1MiB --rounds 4 --seconds 1 --output monday"
        obey(here(f"seqferry bench gateway io1=/mnt/alpha gp2=/mnt/beta {quick}"))
        shutil.copytree(tmp_path / "monday", tmp_path / "tuesday")
        once = "--methods seqferry --warm-up 0 --repetitions 1"
        obey(here(f"seqferry bench transfer s3://bucket/prefix/ {once} --output last-year"))

        for command in COMMANDS:
            merged = command.startswith("seqferry bench merge")
            preview = "" if merged or "--dry-run" in command else " --dry-run"
            # The full sizes need more room than a test may ask for.
            small = " --size 1MiB" if command.startswith("seqferry bench gateway") else ""
            assert obey(here(command) + preview + small), command
    assert list(tmp_path.glob("*/seqferry-bench-*")) == []
