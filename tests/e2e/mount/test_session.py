"""The session of docs/use/mount.md, run as written."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.processes import seqferry
from support.servers import S3Server

PAGE = Path(__file__).parents[3] / "docs" / "use" / "mount.md"
MARK = "--- next command ---"


def session() -> list[tuple[str, list[str]]]:
    """The commands, each with the lines that it is said to print."""
    (block,) = re.findall(r"<!-- session: .*?-->\n```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture
def references(seaweedfs: S3Server, put: Callable[..., None]) -> Iterator[None]:
    seaweedfs.create_bucket("references")
    objects = {"grch38/genome.fa": b">chr1\nACGTACGTAC\n", "grch38/genome.fa.fai": b"chr1\t10\t6\t10\t11\n"}
    put(seaweedfs, "references", objects)
    yield
    seaweedfs.delete_bucket("references")


@pytest.mark.usefixtures("references")
def test_the_session_prints_what_the_page_says(seaweedfs: S3Server, mounter: Mounter, tmp_path: Path) -> None:
    commands = session()
    script = "".join(f"{command} 2>&1; echo; echo '{MARK}'\n" for command, _ in commands)
    environment = {
        **os.environ,
        **seaweedfs.environment(),
        "PATH": f"{seqferry().parent}:{os.environ['PATH']}",
        "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
        "LC_ALL": "C",
    }
    (folder := tmp_path / "work").mkdir()
    try:
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
    finally:
        subprocess.run(["umount", "-l", folder / "ref"], capture_output=True)
    said = done.stdout.replace(str(folder), "FOLDER").split(f"{MARK}\n")[:-1]
    for (command, expected), printed in zip(commands, said, strict=True):
        assert printed.strip().splitlines() == expected, command
