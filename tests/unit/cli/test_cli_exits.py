"""The exit code of each way a transfer can end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from statuses import status

from seqferry.cli import exits
from seqferry.model.models import FailureGroup

DENIED = FailureGroup("person", "AccessDenied", "CopyObject", "no", 1, ("a",))
MISMATCH = FailureGroup("mismatch", "BadDigest", "CompleteMultipartUpload", "differs", 1, ("b",))


@pytest.mark.parametrize(
    ("state", "totals", "failures", "code"),
    [
        ("done", {"objects": 2, "done": 1, "skipped": 1}, [], 0),
        ("done_with_failures", {"objects": 2, "done": 1, "failed": 1}, [DENIED], 1),
        ("done_with_failures", {"objects": 2, "failed": 2}, [DENIED, MISMATCH], 3),
        ("done", {}, [], 4),
        ("failed", {}, [], 1),
        ("failed", {"objects": 2, "done": 1}, [], 1),
        ("failed", {"objects": 2, "failed": 1}, [MISMATCH], 3),
        ("cancelled", {"objects": 2, "done": 2}, [], 1),
        ("cancelled", {}, [], 1),
        # A count without a group must not turn into success.
        ("done_with_failures", {"objects": 1, "failed": 1}, [], 1),
    ],
)
def test_exit_code_tells_how_it_ended(
    state: str, totals: dict[str, int], failures: list[FailureGroup], code: int
) -> None:
    assert exits.transfer_exit_code(status(state, **totals), failures) == code


def test_the_table_is_what_the_documentation_says() -> None:
    codes: dict[str, Any] = {name: getattr(exits, name) for name in dir(exits) if name.isupper() and name != "TABLE"}

    assert [code for code, _ in exits.TABLE] == sorted(codes.values())
    assert codes == {
        "OK": 0, "FAILED": 1, "USAGE": 2, "MISMATCH": 3, "NOTHING": 4, "OUT_OF_REACH": 5, "INTERRUPTED": 130,
    }  # fmt: skip


NUMBERS = re.compile(r"\b(?:exit_code\b.*[:=]|returncode [=!]=|typer\.Exit\(|sys\.exit\(|SystemExit\() *[1-9]")


def test_exit_codes_are_numbers_in_their_table_alone() -> None:
    package = Path(exits.__file__).parents[1]
    sources = [file for file in package.rglob("*.py") if file != package / "model/exits.py"]

    assert len(sources) > 300
    lines = [(file.name, line) for file in sources for line in file.read_text().splitlines()]
    assert not [(name, line) for name, line in lines if NUMBERS.search(line)]
