"""Names at the target: of lists, rules and several sources; two objects never get one name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import KeyRange, TransferSpec
from seqferry.planning import collisions
from seqferry.spec import source_ranges, stored
from seqferry.spec.build import build_spec
from seqferry.spec.target_keys import target_key


def _targets(spec: TransferSpec, *keys: str) -> list[str]:
    """Where each key goes, by the first source that holds it."""
    found: list[str] = []
    for key in keys:
        part = next(one for one in source_ranges.split_sources(spec) if key.startswith(one.source.key))
        found.append(target_key(part, key))
    return found


def test_a_list_says_where_its_objects_go() -> None:
    spec = build_spec("s3://b/run", "s3://c/in", keys=["a", "d/b"], targets=["", "x/y"])

    assert [target_key(spec, f"run/{key}") for key in ("a", "d/b")] == ["in/a", "in/x/y"]
    assert stored.read(stored.write(spec)) == spec


def test_two_of_a_list_with_one_name_are_refused_and_named() -> None:
    with pytest.raises(UsageError) as refused:
        build_spec("s3://b/run", "s3://c/in", keys=["a", "d/b"], targets=["", "a"])

    assert all(name in refused.value.message for name in ("'a'", "'d/b'", "s3://c/in/a"))
    with pytest.raises(UsageError, match="would both become"):
        build_spec("s3://b/run", "s3://c/in", keys=["a1", "a2"], rename=["s/[12]//"])


def test_rules_change_names_below_the_source_only() -> None:
    spec = build_spec("s3://b/run/", "s3://c/in/", rename=["s/run/RUN/"])

    assert target_key(spec, "run/a/run.txt") == "in/a/RUN.txt"
    assert stored.read(stored.write(spec)) == spec


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"source": "s3://b/key", "rename": ["s/a/b/"]}, "DST"),
        ({"source": "s3://b/run/", "rename": ["s/a/b/"], "delete": True, "below": True}, "--delete"),
        ({"source": "s3://b/run/", "rename": ["a/b"]}, "not a rule"),
        ({"source": ["s3://b/run/", "s3://other/run/"]}, "one bucket"),
        ({"source": ["s3://b/run/", "s3://b"]}, "whole bucket"),
        ({"source": ["s3://b/run/", "s3://b/x/"], "below": True}, "Only cp takes several sources"),
        ({"source": []}, "No source"),
        ({"source": "s3://b/run/", "keys": ["a"], "targets": ["x", "y"]}, "one for each key"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        build_spec(target="s3://c/in/", **given)  # type: ignore[arg-type]


def test_each_of_several_sources_goes_where_it_goes_alone() -> None:
    spec = build_spec(["s3://b/one/a.bam", "s3://b/two/", "s3://b/three/d/*.gz"], "s3://c/in")

    assert spec.source.key == ""
    assert _targets(spec, "one/a.bam", "two/x/y", "three/d/e/f.gz") == ["in/a.bam", "in/x/y", "in/e/f.gz"]
    assert stored.read(stored.write(spec)) == spec
    assert build_spec(["s3://b/k"], "s3://c/in/") == build_spec("s3://b/k", "s3://c/in/")


def test_a_local_folder_beside_others_keeps_its_name(tmp_path: Path) -> None:
    for name in ("x/qc/r.txt", "x/a.bam", "y/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    sources = [str(tmp_path / "x/qc"), str(tmp_path / "x/a.bam"), f"{tmp_path}/y/"]

    spec = build_spec(sources, "s3://c/in", allow_local=True)

    assert isinstance(spec.source, LocalFolder)
    assert spec.source.path == str(tmp_path.resolve())
    assert spec.ranges == (
        KeyRange("x/qc/", "x/qc/", into="qc/"),
        KeyRange("x/a.bam", "x/a.bam", single=True, into="a.bam"),
        KeyRange("y/", "y/"),
    )
    assert _targets(spec, "x/qc/r.txt", "x/a.bam", "y/z.txt") == ["in/qc/r.txt", "in/a.bam", "in/z.txt"]


def _pages(*rows: tuple[str, str | None]) -> Iterator[list[tuple[str, str | None]]]:
    for row in rows:
        yield [row]


def _unique(*rows: tuple[str, str | None]) -> list[tuple[str, str | None]]:
    spec = build_spec("s3://b/run/", "s3://c/in/", rename=["s/x/y/"])
    spool = collisions.Spool[tuple[str, str | None]](
        spec, lambda row: (row[0], "", row[1]), list, lambda values: (values[0], values[1])
    )
    return [row for page in spool.unique(_pages(*rows)) for row in page]


def test_objects_come_out_of_the_spool_as_they_went_in() -> None:
    rows = [("run/a", "in/a"), ("run/\udcff\0ü", "in/\udcff\0ü"), ("run/refused", None), ("run/also", None)]

    assert sorted(_unique(*rows, rows[0])) == sorted(rows)


@pytest.mark.parametrize("other", [("run/y", "in/y"), ("run/\udcff", "in/y")])
def test_two_objects_with_one_name_are_refused_and_named(other: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        _unique(("run/x", "in/y"), other)

    named = other[0].encode("utf-8", "backslashreplace").decode()
    assert all(f"s3://{place}" in refused.value.message for place in ("b/run/x", f"b/{named}", "c/in/y"))


def test_one_object_with_two_names_is_refused() -> None:
    with pytest.raises(UsageError, match="named by two sources"):
        _unique(("run/x", "in/y"), ("run/x", "in/z"))
