"""What ``unpack`` takes: specs, options that make no sense, and the selection of members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqferry import stored_spec
from seqferry.errors import UsageError
from seqferry.models import LocalFolder, S3Location
from seqferry.unpacking import Selection, build_operation_spec, build_unpack_spec


def test_a_target_in_s3_is_a_prefix() -> None:
    for target in ("s3://b/out", "s3://b/out/"):
        spec = build_unpack_spec("s3://b/in/x.tar", target)
        assert spec.target == S3Location("b", "out/")
    assert build_unpack_spec("s3://b/in/x.tar", "s3://b").target == S3Location("b", "")
    assert build_unpack_spec("s3://b/in/x.tar", "s3://b/in/").source == S3Location("b", "in/x.tar")


def test_a_local_target_is_a_folder_that_keeps_links(tmp_path: Path) -> None:
    spec = build_unpack_spec("s3://b/x.tar", f"{tmp_path}/to", allow_local=True)
    assert spec.target == LocalFolder(f"{tmp_path}/to", symlinks="keep", empty_directories=True)


def test_defaults_are_not_stored() -> None:
    spec = build_unpack_spec("s3://b/x.tar", "s3://b/out/", index="auto", links="inside")
    assert dict(spec.options) == {}
    assert stored_spec.features(spec) == ["operation unpack"]
    assert stored_spec.read(stored_spec.write(spec)) == spec


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"includes": []}, "'includes' is not an option of unpack"),
        ({"include": "*.bam"}, "'include' is a list"),
        ({"include": [1]}, "'include' is a list"),
        ({"members": [""]}, "'members' is a list"),
        ({"members": []}, "list of members is empty"),
        ({"links": 3}, "is not a value of 'links'"),
        ({"links": "out"}, "--links 'out'"),
        ({"tolerate": ["all"]}, "--tolerate 'all'"),
        ({"include": ["x"] * 1001}, "At most 1000 patterns"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("*", r"\*")):
        build_operation_spec("unpack", options, source="s3://b/x.tar", target="s3://b/out/")


@pytest.mark.parametrize("source", ["s3://b/prefix/", "s3://b"])
def test_a_prefix_is_no_archive(source: str) -> None:
    with pytest.raises(UsageError, match="takes one archive"):
        build_unpack_spec(source, "s3://b/out/")


PATHS = ["a", "run/a.bam", "run/a.bam.bai", "run/deep/b.bam", "runs/c.bam", "other/"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, PATHS),
        ({"include": ["*.bam"]}, ["run/a.bam", "run/deep/b.bam", "runs/c.bam"]),
        ({"include": ["run"]}, ["run/a.bam", "run/a.bam.bai", "run/deep/b.bam"]),
        ({"include": ["run/"], "exclude": ["*/deep"]}, ["run/a.bam", "run/a.bam.bai"]),
        ({"include": ["./run/?.bam"]}, ["run/a.bam"]),
        ({"members": ["run/deep", "./a"]}, ["a", "run/deep/b.bam"]),
        ({"members": ["run/"], "exclude": ["*.bai"]}, ["run/a.bam", "run/deep/b.bam"]),
    ],
)
def test_members_are_selected_by_pattern_and_by_list(options: dict[str, Any], wanted: list[str]) -> None:
    selection = Selection(options)
    assert [path for path in PATHS if selection.wants(path)] == wanted
    assert selection.missing == []


def test_names_that_no_member_has_are_known_in_the_end() -> None:
    selection = Selection({"members": ["a", "b/", "run"]})
    for path in PATHS:
        selection.wants(path)
    assert selection.missing == ["b/"]
