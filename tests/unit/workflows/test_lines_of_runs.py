"""Rows of a run: which line they belong to, and lines that write one key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.db.objects import ArrivedObject, OpenObject, PlannedObject
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.models import ResolvedSpec
from seqferry.spec import run as runs
from seqferry.spec.build import build_spec
from seqferry.spec.run import ListedCommand, RunLines
from seqferry.workflows import retries
from seqferry.workflows.operations import run
from seqferry.workflows.operations.run import lines


def _of(*commands: tuple[int, str, str, str]) -> ResolvedSpec:
    """The spec of a run of these commands: number of the line, operation, source and target."""
    specs = [
        ListedCommand(line, replace(build_spec(source, target, allow_local=True), operation=operation))
        for line, operation, source, target in commands
    ]
    return runs.build_run_spec(specs, "list")


_RUN = _of(
    (1, "transfer", "s3://a/one.bam", "s3://to/in/1.bam"),
    (2, "transfer", "s3://a/two.bam", "s3://to/in/2.bam"),
    (4, "transfer", "s3://b/run/", "s3://to/run/"),
    (7, "move", "s3://c/old/", "s3://to/new/"),
    (9, "transfer", "s3://b/up/", "/data/up/"),
)
_LINES = RunLines(_RUN)


def _planned(source: str, target: str, **more: Any) -> PlannedObject:
    return PlannedObject(source, target, 1, "e", 0.0, None, None, **more)


@pytest.mark.parametrize(
    ("line", "source", "target", "row"),
    [
        (1, "one.bam", "in/1.bam", ("1 s3://a/one.bam", "1 s3://to/in/1.bam")),
        (2, "two.bam", "in/2.bam", ("2 s3://a/two.bam", "2 s3://to/in/2.bam")),
        (4, "run/x y", "run/x y", ("4 s3://b/run/x y", "4 s3://to/run/x y")),
        (7, "old/a", "new/a", ("7 s3://c/old/a", "7 s3://to/new/a")),
        (9, "up/a", "a", ("9 s3://b/up/a", "9 /data/up/a")),
    ],
)
def test_a_row_names_its_line_and_whole_addresses(line: int, source: str, target: str, row: tuple[str, str]) -> None:
    part = next(one for one in _LINES.parts if line in one.lines)

    planned = run._of_line(part, _planned(source, target))

    assert (planned.source_key, planned.target_key) == row
    assert _LINES.parts[_LINES.number_of(planned.source_key)] is part


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from([4, 7, 9]))
def test_the_keys_of_a_part_come_back_from_its_rows(name: str, line: int) -> None:
    part = next(one for one in _LINES.parts if line in one.lines)
    source, target = part.spec.source.key + name, part.spec.target.key + name
    row = run._of_line(part, _planned(source, target))

    one = run._of_part(part, OpenObject(1, row.source_key, row.target_key, 1, "e", None, None, None, None))

    assert (one.source_key, one.target_key) == (source, target)


def _arrived(source: str, target: str) -> ArrivedObject:
    return ArrivedObject(1, source, "e", target, None, 1, None, None, None, None, None)


def test_only_lines_that_move_have_sources_to_remove() -> None:
    moved = lines.find_move(_RUN, _arrived("7 s3://c/old/a b", "7 s3://to/new/a b"))

    assert moved is not None
    assert moved[0].kind.removes_sources
    assert (moved[1].source_key, moved[1].target_key) == ("old/a b", "new/a b")
    assert lines.find_move(_RUN, _arrived("4 s3://b/run/a", "4 s3://to/run/a")) is None


@pytest.mark.parametrize(
    ("line", "shown"), [(1, "1 s3://a/one.bam"), (2, "2 s3://a/two.bam"), (4, "4 s3://b/run/"), (9, "9 s3://b/up/")]
)
@pytest.mark.parametrize(
    ("why", "code"),
    [
        (UsageError("no"), "usage"),
        (StorageError("no", "person", "NoSuchBucket"), "NoSuchBucket"),
        (StorageError("no", "person"), "storage"),
    ],
)
def test_a_line_that_cannot_be_begun_fails_by_its_own_source(line: int, shown: str, why: Any, code: str) -> None:
    part = next(one for one in _LINES.parts if line in one.lines)

    planned = run._plan_failed(part, line, why)

    assert planned.source_key == shown
    assert planned.refusal == (code, "no")
    assert not planned.left_out


_SIDE_BY_SIDE = _of((1, "transfer", "s3://a/x/", "s3://to/in/"), (2, "transfer", "s3://b/y/", "s3://to/in/"))


def _unique(pages: Iterable[list[PlannedObject]]) -> list[str]:
    return sorted(one.source_key for page in run._unique(_SIDE_BY_SIDE, iter(pages)) for one in page)


def test_lines_that_write_different_keys_below_one_prefix_go_on() -> None:
    pages = [[_planned("1 s3://a/x/a", "1 s3://to/in/a")], [_planned("2 s3://b/y/b", "2 s3://to/in/b")]]

    assert _unique(pages) == ["1 s3://a/x/a", "2 s3://b/y/b"]


def test_lines_that_write_one_key_are_named_and_nothing_is_copied() -> None:
    pages = [[_planned("2 s3://b/y/a", "2 s3://to/in/a")], [_planned("1 s3://a/x/a", "1 s3://to/in/a")]]

    with pytest.raises(
        StorageError, match=r"^Line 1 writes s3://a/x/a and line 2 writes s3://b/y/a to one place"
    ) as it:
        _unique(pages)

    assert it.value.error_code == "TargetCollision"
    assert "s3://to/in/a." in it.value.message
    assert it.value.job_wide


def test_an_object_that_fails_writes_nothing() -> None:
    refused = _planned("2 s3://b/y/a", "2 s3://to/in/a", refusal=("AccessDenied", "no"))

    assert len(_unique([[_planned("1 s3://a/x/a", "1 s3://to/in/a")], [refused]])) == 2


def test_refused_objects_are_looked_at_again_by_the_part_of_their_line() -> None:
    refused = [
        _planned("4 s3://b/run/a", "4 s3://to/run/a"),
        _planned("1 s3://a/one.bam", "1 s3://to/in/1.bam"),
        _planned("4 s3://b/run/b", "4 s3://to/run/b"),
    ]

    found = [(spec.source.uri, [key for key, _ in ones]) for spec, ones in retries._by_part(_RUN, refused)]

    assert found == [("s3://b/run/", ["run/a", "run/b"]), ("s3://a/", ["one.bam"])]
