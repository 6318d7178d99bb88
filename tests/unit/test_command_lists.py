"""Lists of commands: what becomes one part, and which line a row belongs to."""

from __future__ import annotations

import pytest

from seqferry.errors import UsageError
from seqferry.removals import build_remove_spec
from seqferry.runs import Command, Lines, build_run_spec, key_of, parts_of, shown
from seqferry.spec import build_spec


def _copy(line: int, source: str, target: str) -> Command:
    return Command(line, build_spec(source, target, endpoint_url="http://127.0.0.1:9"))


def test_lines_of_single_objects_become_one_part_and_keep_their_numbers() -> None:
    commands = [_copy(number, f"s3://b/run/{number}", f"s3://c/in/x{number}") for number in range(2, 6)]
    commands.append(_copy(9, "s3://b/all/", "s3://c/all/"))
    commands.append(Command(11, build_remove_spec(["s3://b/old"], endpoint_url="http://127.0.0.1:9")))

    spec = build_run_spec(commands, "list")

    copies, removal, whole = parts_of(spec)
    assert copies.spec.keys == ("run/2", "run/3", "run/4", "run/5")
    assert copies.spec.targets == ("in/x2", "in/x3", "in/x4", "in/x5")
    assert (removal.spec.operation, removal.spec.keys, removal.lines) == ("remove", ("old",), (11,))
    assert (whole.lines, whole.spec.source.key) == ((9,), "all/")
    row = shown(4, copies.spec.source, "run/4")
    assert row == "4 s3://b/run/4"
    assert Lines(spec).number_of(row) == 0
    assert key_of(row, copies.spec.source) == "run/4"


def test_one_source_may_go_to_two_places() -> None:
    spec = build_run_spec([_copy(1, "s3://b/x", "s3://c/1"), _copy(2, "s3://b/x", "s3://c/2")], "list")

    assert [part.lines for part in parts_of(spec)] == [(1,), (2,)]


def test_two_lines_that_write_to_one_object_are_named() -> None:
    with pytest.raises(UsageError, match=r"^list: lines 1 and 3 both change"):
        build_run_spec([_copy(1, "s3://b/x", "s3://c/1"), _copy(3, "s3://b/y", "s3://c/1")], "list")
