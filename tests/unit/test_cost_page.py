"""The commands of pages about costs, run as written: each prints what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.processes import seqferry
from support.run import MissingToolError

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("use/cost.md", "operate/aws.md")
BLOCKS = [
    block for page in PAGES for block in re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", (DOCS / page).read_text())
]


def test_each_command_prints_what_its_page_says(tmp_path: Path) -> None:
    try:
        folder = seqferry().parent
    except MissingToolError as missing:
        pytest.skip(str(missing))
    assert len(BLOCKS) >= 9
    for command, said in BLOCKS:
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        ran = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )

        assert (ran.stdout, ran.stderr) == (said, ""), command


@pytest.mark.parametrize(
    ("row", "figure"),
    [
        ("sum", "929.26"),
        ("sum", "556.96"),
        ("", "40.06 % less"),
        ("sum", "183.03"),
        ("CPU of DBOS Cloud", "0.10"),
        ("a month of DBOS Cloud Pro", "99.00"),
        ("copies of parts of 16.0 MiB", "3.89"),
        ("copies of parts of 128.0 MiB", "0.49"),
    ],
)
def test_the_figures_of_the_documents_are_printed(row: str, figure: str) -> None:
    printed = "".join(said for _, said in BLOCKS)

    assert re.search(rf"(?m)^{re.escape(row)} .*(?<![\d.,]){re.escape(figure)}(?![\d.])", printed)
