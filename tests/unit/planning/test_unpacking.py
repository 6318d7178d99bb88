"""What ``pack`` and ``unpack`` take: specs, options that make no sense, and the selection of members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.planning.unpacking import MemberSelection, build_operation_spec, build_unpack_spec
from seqferry.spec import stored
from seqferry.spec.pack import build_pack_spec


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
    assert stored.read(stored.write(spec)) == spec


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"includes": []}, "'includes' is not an option of unpack"),
        ({"include": ["*.bam"]}, "write 'rules'"),
        ({"members": "a.bam"}, "'members' is a list"),
        ({"members": [1]}, "'members' is a list"),
        ({"members": [""]}, "'members' is a list"),
        ({"members": []}, "list of members is empty"),
        ({"links": 3}, "is not a value of 'links'"),
        ({"links": "out"}, "--links 'out'"),
        ({"tolerate": ["all"]}, "--tolerate 'all'"),
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
ONLY = "- *"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, PATHS),
        ({"rules": [ONLY, "+ *.bam"]}, ["run/a.bam", "run/deep/b.bam", "runs/c.bam"]),
        ({"rules": [ONLY, "+ run/*"]}, ["run/a.bam", "run/a.bam.bai", "run/deep/b.bam"]),
        ({"rules": [ONLY, "+ run/*", "- */deep/*"]}, ["run/a.bam", "run/a.bam.bai"]),
        ({"rules": ["- *.bam", "+ run/*"]}, ["a", "run/a.bam", "run/a.bam.bai", "run/deep/b.bam", "other/"]),
        ({"rules": [ONLY, "+ run/?.bam"]}, ["run/a.bam"]),
        ({"rules": ["+ *.bam"]}, PATHS),
        ({"keys": ["run/deep", "./a"]}, ["a", "run/deep/b.bam"]),
        ({"keys": ["run/"], "rules": ["- *.bai"]}, ["run/a.bam", "run/deep/b.bam"]),
    ],
)
def test_members_are_selected_as_objects_are_and_by_list(given: dict[str, Any], wanted: list[str]) -> None:
    selection = MemberSelection(build_unpack_spec("s3://b/run.tar", "s3://b/out/", **given))
    assert [path for path in PATHS if selection.wants(path)] == wanted
    assert selection.missing == []


def test_sizes_and_ages_select_members() -> None:
    spec = build_unpack_spec("s3://b/x.tar", "s3://b/out/", min_size=10, older_than="2026-01-01")
    selection = MemberSelection(spec)
    assert [selection.wants("a", *facts) for facts in ((10, 1e9), (9, 1e9), (10, 2e9))] == [True, False, False]


def test_a_path_that_begins_like_the_archive_is_held_whole_against_rules() -> None:
    selection = MemberSelection(build_unpack_spec("s3://b/run", "s3://b/out/", rules=[ONLY, "+ run/*"]))
    assert selection.wants("run/a")


def test_two_lists_of_members_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        build_unpack_spec("s3://b/x.tar", "s3://b/out/", keys=["a"], members=["b"])


def test_names_that_no_member_has_are_known_in_the_end() -> None:
    selection = MemberSelection(build_unpack_spec("s3://b/x.tar", "s3://b/out/", keys=["a", "b/", "run"]))
    for path in PATHS:
        selection.wants(path)
    assert selection.missing == ["b/"]


def test_a_folder_of_this_machine_becomes_a_file_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    spec = build_pack_spec(f"{tmp_path}/run", f"{tmp_path}/run.tar", allow_local=True)
    assert (spec.source, spec.target) == (LocalFolder(f"{tmp_path}/run"), LocalFolder(str(tmp_path), "run.tar"))
    (tmp_path / "link").symlink_to("run")
    for target in (f"{tmp_path}/run/x.tar", f"{tmp_path}/run/deep/x.tar", f"{tmp_path}/link/x.tar"):
        with pytest.raises(UsageError, match="would lie in what is packed"):
            build_pack_spec(f"{tmp_path}/run", target, allow_local=True)
    with pytest.raises(UsageError, match="on the command line only"):
        build_pack_spec(f"{tmp_path}/run", f"{tmp_path}/x.tar")
