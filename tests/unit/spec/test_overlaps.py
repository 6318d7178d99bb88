"""Commands that are done side by side: every overlap that could be is reported, and none that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Names, Removal
from seqferry.planning import decision
from seqferry.planning.removals import EXACT
from seqferry.spec import overlaps
from seqferry.spec.build import build_spec
from seqferry.spec.overlaps import Overlap
from seqferry.spec.target_keys import target_key


def _copy(source: str, target: str, **options: Any) -> TransferSpec:
    return build_spec(source, target, allow_local=True, **options)


def _move(source: str, target: str) -> TransferSpec:
    return replace(_copy(source, target), operation="move")


def _remove(uri: str, *, exact: bool = True) -> TransferSpec:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    place = S3Location(bucket, key)
    return TransferSpec(place, place, strip=key, operation="remove", options={EXACT: True} if exact else {})


def _first(*specs: TransferSpec) -> Overlap | None:
    return overlaps.find_first(enumerate(specs, start=1))


@pytest.mark.parametrize(
    ("specs", "found"),
    [
        ([], None),
        ([_copy("s3://a/x", "s3://b/x")], None),
        # One command may read what it writes below.
        ([_copy("s3://a/x/", "s3://a/y/")], None),
        ([_copy("s3://a/x", "s3://b/x"), _copy("s3://a/x", "s3://b/y")], None),
        ([_copy("s3://a/x", "s3://b/x"), _copy("s3://a/y", "s3://b/x")], (1, "writes", 2, "writes", "s3://b/x")),
        ([_copy("s3://a/x", "s3://b/x"), _copy("s3://b/x", "s3://c/x")], (1, "writes", 2, "reads", "s3://b/x")),
        ([_copy("s3://b/x", "s3://c/x"), _copy("s3://a/x", "s3://b/x")], (2, "writes", 1, "reads", "s3://b/x")),
        ([_copy("s3://a/x", "s3://b/x"), _remove("s3://b/x")], (1, "writes", 2, "removes", "s3://b/x")),
        ([_remove("s3://a/x"), _copy("s3://a/x", "s3://b/x")], (1, "removes", 2, "reads", "s3://a/x")),
        ([_remove("s3://a/x"), _remove("s3://a/x")], None),
        ([_remove("s3://a/", exact=False), _copy("s3://a/x", "s3://b/x")], (1, "removes", 2, "reads", "s3://a/x")),
        # Two may write below one prefix, under different names.
        ([_copy("s3://a/x/", "s3://c/in/"), _copy("s3://b/y/", "s3://c/in/")], None),
        (
            [_copy("s3://a/x/", "s3://c/in/"), _copy("s3://c/in/z", "s3://d/z")],
            (1, "writes", 2, "reads", "s3://c/in/z"),
        ),
        ([_copy("s3://a/x/", "s3://c/in/"), _copy("s3://c/input/z", "s3://d/z")], None),
        ([_move("s3://a/x", "s3://b/x"), _copy("s3://a/x", "s3://c/x")], None),
        # Wildcards of which the ends differ do not meet; others could.
        ([_copy("s3://a/x/*.bam", "s3://b/"), _remove("s3://a/x/1.bai")], None),
        ([_copy("s3://a/x/*.bam", "s3://b/"), _remove("s3://a/x/1.bam")], (2, "removes", 1, "reads", "s3://a/x/1.bam")),
        # Of the same bucket, whatever its endpoint is called.
        (
            [
                _copy("s3://a/x", "s3://b/x", target_endpoint_url="https://s3.eu-west-1.amazonaws.com"),
                _copy("s3://b/x", "s3://c/x"),
            ],
            (1, "writes", 2, "reads", "s3://b/x"),
        ),
        ([_copy("s3://a/x", "s3://b/x", target_endpoint_url="https://x.example"), _copy("s3://b/x", "s3://c/x")], None),
    ],
)
def test_the_first_overlap_is_named_with_what_each_does(specs: list[TransferSpec], found: Any) -> None:
    assert _first(*specs) == found


def test_a_sync_that_removes_meets_what_reads_below_its_target() -> None:
    sync = replace(_copy("s3://a/x/", "s3://b/in/"), removal=Removal(delete=True))

    assert _first(_copy("s3://b/in/", "s3://c/"), sync) == (2, "writes", 1, "reads", "s3://b/in/*")
    assert _first(_copy("s3://b/out/", "s3://c/"), sync) is None


def test_names_that_are_changed_by_rules_could_be_any_below_the_target() -> None:
    renamed = replace(_copy("s3://a/x/", "s3://b/in/"), names=Names(rename=("s/a/b/",)))

    assert _first(renamed, _remove("s3://b/in/whatever")) is not None
    assert _first(renamed, _remove("s3://b/other")) is None


@pytest.mark.parametrize(
    ("read", "written", "meet"),
    [("*.bam", "*1.bam", True), ("*1.bam", "*.bam", True), ("*.bam", "*.bai", False), ("*", "*.bai", True)],
)
def test_wildcards_meet_unless_their_ends_differ(read: str, written: str, meet: bool) -> None:
    found = _first(_copy(f"s3://a/x/{read}", "s3://b/"), _copy(f"s3://c/y/{written}", "s3://a/x/"))

    assert (found is not None) is meet


def test_the_overlap_of_the_earliest_lines_is_the_first() -> None:
    lines = [_copy("s3://a/1", "s3://b/1"), _copy("s3://c/1", "s3://d/1"), _remove("s3://c/1"), _remove("s3://a/1")]

    assert _first(*lines) == (3, "removes", 2, "reads", "s3://c/1")


# --- against a model --------------------------------------------------------------------------------------------------

_KEYS = ["".join(one) for length in range(1, 4) for one in product("ab/", repeat=length)]
_PREFIXES = ["", "a", "b", "a/", "b/", "ab/", "a/a/"]


def _exact(source: str, target: str) -> TransferSpec:
    return TransferSpec(S3Location("x", source), S3Location("x", target), single=True)


def _wide(source: str, target: str) -> TransferSpec:
    return TransferSpec(S3Location("x", source), S3Location("x", target), strip=source)


_EXACT = st.builds(_exact, st.sampled_from(_KEYS), st.sampled_from(_KEYS))
_WIDE = st.builds(_wide, st.sampled_from(_PREFIXES), st.sampled_from(_PREFIXES))
_REMOVED = st.builds(lambda key, exact: _remove(f"s3://x/{key}", exact=exact), st.sampled_from(_KEYS), st.booleans())


def _selecting(source: str, target: str, pattern: str) -> TransferSpec:
    return TransferSpec(S3Location("x", source), S3Location("x", target), strip=source, pattern=source + pattern)


_PATTERNS = st.builds(
    _selecting, st.sampled_from(_PREFIXES), st.sampled_from(_PREFIXES), st.sampled_from(["*a", "*", "b*", "*/b"])
)


def _acts(spec: TransferSpec) -> dict[str, set[str]]:
    """The keys that a command reads, writes and removes in a bucket that holds all short keys."""
    own: Any = spec
    if spec.single or spec.options.get(EXACT):
        found = {spec.source.key}
    else:
        listed = [SimpleNamespace(key=key, size=1, last_modified=0.0) for key in _KEYS]
        found = {one.key for one in listed if one.key.startswith(spec.source.key) and decision.is_selected(own, one)}
    if spec.kind.removes:
        return {"reads": set(), "writes": set(), "removes": found}
    return {"reads": found, "writes": {target_key(spec, key) for key in found} - {""}, "removes": set()}


def _meet(specs: Sequence[TransferSpec]) -> bool:
    """True when one reads or removes what another writes, or removes what another reads; or two write one file."""
    acts = [_acts(spec) for spec in specs]
    return any(
        one["writes"] & (other["reads"] | other["removes"])
        or one["removes"] & other["reads"]
        or (specs[i].single and specs[j].single and one["writes"] & other["writes"])
        for (i, one), (j, other) in product(enumerate(acts), repeat=2)
        if i != j
    )


@given(st.lists(_EXACT | _WIDE | _REMOVED, min_size=2, max_size=3))
def test_keys_and_prefixes_overlap_where_their_objects_do(specs: list[TransferSpec]) -> None:
    if _meet(specs):
        assert _first(*specs) is not None
    elif all(one.single or one.options.get(EXACT) for one in specs):  # keys below prefixes are more than the model has
        assert _first(*specs) is None


@given(st.lists(_EXACT | _PATTERNS | _REMOVED, min_size=2, max_size=3))
def test_no_overlap_of_wildcards_is_missed(specs: list[TransferSpec]) -> None:
    assert _first(*specs) is not None or not _meet(specs)


@given(st.lists(_EXACT | _WIDE | _PATTERNS, min_size=2, max_size=3))
def test_commands_that_write_one_key_are_told(specs: list[TransferSpec]) -> None:
    written = [_acts(spec)["writes"] for spec in specs]
    # Two that name one file are refused before.
    pairs = [(i, j) for i in range(len(specs)) for j in range(i) if not (specs[i].single and specs[j].single)]
    do_meet = any(written[i] & written[j] for i, j in pairs)

    assert overlaps.may_write_one_key(specs) or not do_meet


@pytest.mark.parametrize(
    ("specs", "may"),
    [
        ([], False),
        ([_wide("a/", "b/")], False),
        ([_exact("a", "b"), _exact("b", "c")], False),
        ([_wide("a/", "b/"), _wide("b/", "b/a/")], True),
        ([_wide("a/", "b/"), _exact("a", "b/x")], True),
        ([_wide("a/", "b/"), _exact("a", "bb")], False),
        ([_remove("s3://x/b/", exact=False), _wide("a/", "b/")], False),
    ],
)
def test_a_command_may_write_below_the_prefix_of_another(specs: list[TransferSpec], may: bool) -> None:
    assert overlaps.may_write_one_key(specs) is may
    assert overlaps.may_write_one_key(specs[::-1]) is may


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "real/in").mkdir(parents=True)
    (tmp_path / "real/in/x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "deep").symlink_to(tmp_path / "real/in")
    return tmp_path


Maker = Callable[[Path], list[TransferSpec]]


@pytest.mark.parametrize(
    ("make", "acts"),
    [
        (
            lambda at: [_copy("s3://a/x", f"{at}/link/in/x"), _copy(f"{at}/real/in/x", "s3://b/y")],
            ("writes", "reads"),
        ),
        (lambda at: [_copy("s3://a/x/", f"{at}/link/in/"), _copy(f"{at}/real/", "s3://b/")], ("writes", "reads")),
        (lambda at: [_copy("s3://a/x", f"{at}/deep/y"), _copy(f"{at}/real/", "s3://b/")], ("writes", "reads")),
        (lambda at: [_copy("s3://a/x/", f"{at}/new/"), _copy(f"{at}/real/", "s3://b/")], None),
        (lambda at: [_copy("s3://a/x", f"{at}/new/x"), _copy("s3://a/y", f"{at}/link/../new/x")], ("writes", "writes")),
        (lambda at: [_copy("s3://a/x", f"{at}/new/x"), _copy("s3://a/y", f"{at}/new/y")], None),
        (lambda at: [_copy("s3://a/x/", f"{at}/new/"), _copy("s3://a/y/", f"{at}/new/")], None),
    ],
)
def test_files_meet_whatever_path_leads_to_them(disk: Path, make: Maker, acts: tuple[str, str] | None) -> None:
    found = _first(*make(disk))

    assert (None if found is None else (found.first_act, found.second_act)) == acts


def test_a_key_has_one_address_however_its_place_is_spelled(disk: Path) -> None:
    paths = [f"{disk}/real", f"{disk}/link", f"{disk}/link/../real/"]

    assert len({overlaps.canonical_address(LocalFolder(path), "in/x") for path in paths}) == 1
    assert overlaps.canonical_address(LocalFolder(f"{disk}/link"), "in/").endswith("/real/in/")
    assert overlaps.canonical_address(S3Location("b"), "k") == overlaps.canonical_address(
        S3Location("b", endpoint_url="https://s3.eu-west-1.amazonaws.com"), "k"
    )
    assert overlaps.canonical_address(S3Location("b"), "k") != overlaps.canonical_address(
        S3Location("b", endpoint_url="https://x.example"), "k"
    )
