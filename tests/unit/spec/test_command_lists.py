"""Lists of commands: what becomes one part, and which line a row belongs to."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.models import OPERATION_MOVE, TransferSpec
from seqferry.planning.removals import build_remove_spec
from seqferry.spec.build import build_spec
from seqferry.spec.run import ListedCommand, RunLines, build_run_spec, key_of_row, name_key, read_parts
from seqferry.spec.validation import validate_spec


def _copy(line: int, source: str, target: str) -> ListedCommand:
    return ListedCommand(line, build_spec(source, target, endpoint_url="http://127.0.0.1:9"))


def test_lines_of_single_objects_become_one_part_and_keep_their_numbers() -> None:
    commands = [_copy(number, f"s3://b/run/{number}", f"s3://c/in/x{number}") for number in range(2, 6)]
    commands.append(_copy(9, "s3://b/all/", "s3://c/all/"))
    commands.append(ListedCommand(11, build_remove_spec(["s3://b/old"], endpoint_url="http://127.0.0.1:9")))

    spec = build_run_spec(commands, "list")

    copies, removal, whole = read_parts(spec)
    assert copies.spec.keys == ("run/2", "run/3", "run/4", "run/5")
    assert copies.spec.targets == ("in/x2", "in/x3", "in/x4", "in/x5")
    assert (removal.spec.operation, removal.spec.keys, removal.lines) == ("remove", ("old",), (11,))
    assert (whole.lines, whole.spec.source.key) == ((9,), "all/")
    row = name_key(4, copies.spec.source, "run/4")
    assert row == "4 s3://b/run/4"
    assert RunLines(spec).number_of(row) == 0
    assert key_of_row(row, copies.spec.source) == "run/4"


def test_one_source_may_go_to_two_places() -> None:
    spec = build_run_spec([_copy(1, "s3://b/x", "s3://c/1"), _copy(2, "s3://b/x", "s3://c/2")], "list")

    assert [part.lines for part in read_parts(spec)] == [(1,), (2,)]


def test_two_lines_that_write_to_one_object_are_named() -> None:
    with pytest.raises(UsageError, match=r"^list: lines 1 and 3 both change"):
        build_run_spec([_copy(1, "s3://b/x", "s3://c/1"), _copy(3, "s3://b/y", "s3://c/1")], "list")


# --- lines that meet --------------------------------------------------------------------------------------------------

URL = "http://127.0.0.1:9"


def _line(text: str, folder: Path, **given: Any) -> TransferSpec:
    """The spec of ``cp``, ``mv`` or ``rm`` and its addresses."""
    verb, *places = text.replace("TMP", str(folder)).split()
    if verb == "rm":
        recursive = places[-1] == "-r"
        return build_remove_spec(places[:1], recursive=recursive, endpoint_url=URL)
    spec = build_spec(*places, allow_local=True, **({"endpoint_url": URL} | given))
    return validate_spec(replace(spec, operation=OPERATION_MOVE)) if verb == "mv" else spec


def _run(tmp_path: Path, *texts: str) -> TransferSpec:
    commands = [ListedCommand(number, _line(text, tmp_path)) for number, text in enumerate(texts, 1)]
    return build_run_spec(commands, "list")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data/sub/f").write_bytes(b"f")
    (tmp_path / "data/g.txt").write_bytes(b"g")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    os.link(tmp_path / "data/sub/f", tmp_path / "hard")
    (tmp_path / "file-link").symlink_to(tmp_path / "data/sub/f")
    return tmp_path


REFUSED = [
    ("mv s3://b/a s3://b/b", "mv s3://b/b s3://b/c"),
    ("mv s3://b/b s3://b/c", "mv s3://b/a s3://b/b"),
    ("mv s3://b/a s3://b/b", "mv s3://b/b s3://b/a"),
    ("cp s3://b/a s3://b/b", "cp s3://b/b s3://c/b"),
    ("cp s3://b/a s3://c/b", "rm s3://c/b"),
    ("rm s3://b/a", "cp s3://b/a s3://c/a"),
    ("mv s3://b/a s3://c/a", "rm s3://b/a"),
    ("cp s3://b/a s3://c/x/a", "cp s3://c/x/ s3://d/"),
    ("cp s3://b/a s3://c/x/a", "rm s3://c/x/ -r"),
    ("cp s3://b/a s3://c/x/a.txt", "rm s3://c/x/*.txt"),
    ("rm s3://b/x/ -r", "cp s3://b/x/y/*.txt s3://c/"),
    ("cp s3://b/a/ s3://c/x/", "cp s3://c/x/y/ s3://d/"),
    ("cp s3://b/a/ s3://c/x/y/", "mv s3://c/x/ s3://d/"),
    ("cp s3://b/a/*.txt s3://c/x/", "cp s3://c/x/f.txt s3://d/"),
    ("cp s3://b/a/*.txt s3://c/x/", "cp s3://c/x/*.txt s3://d/"),
    ("cp s3://b/a/s*.txt s3://c/x/", "cp s3://c/x/s1.txt s3://d/"),
    ("cp s3://b/a s3://c/", "cp s3://c/ s3://d/"),
    ("cp s3://b/a s3://c/x", "cp s3://b/b s3://c/x"),
    ("cp s3://b/a TMP/data/g.txt", "cp TMP/data/g.txt s3://c/"),
    ("cp s3://b/a TMP/data/sub/../g.txt", "cp TMP/data/ s3://c/"),
    ("cp s3://b/a TMP/link/new", "mv TMP/data/ s3://c/"),
    ("cp s3://b/a TMP/data/new", "cp s3://b/b TMP/link/new"),
    ("cp s3://b/a TMP/data/./new", "cp s3://b/b TMP/data//new"),
    ("cp s3://b/ TMP/link/sub/", "cp TMP/data/ s3://c/"),
    ("cp s3://b/a TMP/data/sub/f", "cp TMP/hard s3://c/"),
    ("cp s3://b/a TMP/data/sub/f", "cp TMP/file-link s3://c/"),
    ("cp s3://b/a TMP/data/x.txt", "cp TMP/data/*.txt s3://c/"),
    ("cp s3://b/a s3://other/a", "cp s3://other/a s3://b/b"),
]


@pytest.mark.parametrize("lines", REFUSED)
def test_a_line_that_reads_or_removes_what_another_changes_is_refused(folder: Path, lines: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=r"^list: lines? (1|2)\b.*(lines?|and) (1|2)\b") as refused:
        _run(folder, *lines)

    assert "1" in refused.value.message
    assert "2" in refused.value.message
    with pytest.raises(UsageError):
        _run(folder, *reversed(lines))


def test_a_chain_is_named_by_its_first_lines_that_meet(tmp_path: Path) -> None:
    lines = [f"mv s3://b/k{number} s3://b/k{number + 1}" for number in (5, 1, 9, 2, 3)]

    with pytest.raises(UsageError, match=r"^list: line 2 writes s3://b/k2, which line 4 reads"):
        _run(tmp_path, *lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("mv s3://b/a s3://c/a", "mv s3://b/b s3://c/b"),
        ("cp s3://b/a s3://c/a", "cp s3://b/a s3://c/b"),
        ("mv s3://b/a s3://c/a", "cp s3://b/a s3://d/a"),
        ("cp s3://b/x/ s3://c/all/", "cp s3://b/y/ s3://c/all/"),
        ("rm s3://b/x/ -r", "rm s3://b/x/y"),
        ("rm s3://b/x/*.tmp", "cp s3://b/x/*.bam s3://c/"),
        ("rm s3://b/x/*.tmp", "cp s3://b/y s3://b/x/y.bam"),
        ("mv s3://b/in/*.bam s3://b/done/", "mv s3://b/in/*.vcf s3://b/done/"),
        ("cp s3://b/a s3://b/run4/a", "cp s3://b/run42/ s3://c/"),
        ("cp s3://b/a TMP/data/new", "cp TMP/data/sub/ s3://c/"),
        ("cp s3://b/a TMP/data/new", "cp TMP/data/*.txt s3://c/"),
        ("cp s3://b/a/*.txt s3://c/x/", "cp s3://c/x/f.gz s3://d/"),
        ("cp s3://b/a/s*.txt s3://c/x/", "cp s3://c/x/t1.txt s3://d/"),
    ],
)
def test_lines_that_do_not_meet_are_done_side_by_side(folder: Path, lines: tuple[str, str]) -> None:
    assert len({line for part in read_parts(_run(folder, *lines)) for line in part.lines}) == 2


def test_one_name_of_a_bucket_at_two_endpoints_is_two_places(tmp_path: Path) -> None:
    other = {"source_endpoint_url": URL, "target_endpoint_url": "http://127.0.0.1:10", "endpoint_url": None}
    lines = [
        ListedCommand(1, _line("cp s3://b/a s3://b/b", tmp_path, **other)),
        ListedCommand(2, _line("cp s3://b/b s3://b/c", tmp_path, **other)),
    ]

    assert len(read_parts(build_run_spec(lines, "list"))[0].lines) == 2


@pytest.mark.parametrize(
    "line",
    [
        "cp s3://b/in/N s3://c/out/N",
        "cp s3://b/in/N/ s3://c/out/",
        "mv s3://b/in/*.N s3://c/out/",
        "cp s3://b/in/one s3://c/out/N",
    ],
)
def test_long_lists_are_compared_in_little_time(line: str, tmp_path: Path) -> None:
    commands = [ListedCommand(number, _line(line.replace("N", str(number)), tmp_path)) for number in range(1, 1501)]
    began = time.process_time()

    build_run_spec(commands, "list")

    assert time.process_time() - began < 5
