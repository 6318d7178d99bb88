"""Which objects a selection takes: the cases in which the AWS CLI, s5cmd and rclone were watched."""

from __future__ import annotations

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.option_groups import Filters, Names
from seqferry.nextflow.unrecorded import ListingEntry
from seqferry.planning import decision, removal_rules
from seqferry.planning.unpacking import MemberSelection, build_unpack_spec
from seqferry.spec.build import build_spec
from seqferry.spec.selection import Conditions, build_matcher, check_conditions, parse_time
from seqferry.spec.validation import selects_everything

KEYS = {
    "a": "a.txt",
    "A": "A.TXT",
    "b": "b.log",
    "c": "c.bam",
    "h": ".hid",
    "s": "sp ace.txt",
    "1": "x1.txt",
    "]": "x[1].txt",
    "k": "a.txt.bak",
    "D": "d/a.txt",
    "B": "d/b.log",
    "E": "d/e/a.txt",
    "C": "d/e/c.bam",
    "T": "d/tmp/a.txt",
    "F": "dd/a.txt",
    "P": "tmp/a.txt",
}
ALL = "".join(KEYS)


def _taken(selection: Conditions) -> str:
    test = build_matcher(selection)
    return "".join(name for name, key in KEYS.items() if test is None or test(f"run/{key}", 1, 0.0))


def _without(left_out: str) -> str:
    return "".join(name for name in ALL if name not in left_out)


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [
        (("- *.txt",), "as1]DETFP"),
        (("+ *.txt",), ""),
        (("- *", "+ *.txt"), "bcAhBCk"),
        (("+ *.txt", "- *"), ALL),
        (("- *", "+ *.txt", "- d/*"), _without("as1]FP")),
        (("- d/*", "+ d/a.txt"), "BECT"),
        (("- a.txt",), "a"),
        (("- /a.txt",), ""),
        (("- d",), ""),
        (("- d/",), ""),
        (("- d/*",), "DBECT"),
        (("- d/**",), "DBECT"),
        (("- */a.txt",), "DETFP"),
        (("- **/a.txt",), "DETFP"),
        (("- tmp/*",), "P"),
        (("- ?.txt",), "a"),
        (("- x[1].txt",), "1"),
        (("- x[[]1].txt",), "]"),
        (("- {a.txt,b.log}",), ""),
        (("- *.TXT",), "A"),
        (("- .*",), "h"),
    ],
)
def test_rules_leave_out_what_the_aws_cli_leaves_out(rules: tuple[str, ...], left_out: str) -> None:
    assert _taken(Conditions(names=Names(rules), strip="run/")) == _without(left_out)


@pytest.mark.parametrize(
    ("pattern", "is_path", "taken"),
    [
        ("run/*.txt", False, "as1]DETFP"),
        ("run/d*", False, "DBECTF"),
        ("run/?.txt", False, "a"),
        ("run/x[1].txt", False, "]"),
        ("run/*.txt", True, "as1]"),
        ("run/**/a.txt", True, "aDETFP"),
        ("run/d/**", True, "DBECT"),
        ("run/*/?.log", True, "B"),
    ],
)
def test_a_wildcard_crosses_slashes_in_keys_and_not_in_paths(pattern: str, is_path: bool, taken: str) -> None:
    assert _taken(Conditions(pattern=pattern, is_path=is_path)) == taken


def test_sizes_and_ages_count_from_the_submission() -> None:
    day = 86_400.0
    test = build_matcher(Conditions(filters=Filters(10, 20, "7d", "1970-01-15"), as_of=14 * day))

    assert test is not None
    assert [test("key", size, 10 * day) for size in (9, 10, 20, 21)] == [False, True, True, False]
    assert [test("key", 15, at * day) for at in (6.9, 7.1, 13.9, 14.1)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("source", "depth", "taken"),
    [
        ("s3://b/run/", 1, ["run/a"]),
        ("s3://b/run", 1, ["run/a"]),
        ("s3://b/run/", 2, ["run/a", "run/d/", "run/d/b"]),
        ("s3://b", 2, ["run/a"]),
        ("s3://b/run/*", 1, ["run/a"]),
        ("s3://b/r*", 2, ["run/a"]),
    ],
)
def test_a_depth_counts_levels_below_the_source(source: str, depth: int, taken: list[str]) -> None:
    spec = build_spec(source, "s3://c/in/", below=source.endswith("run"), max_depth=depth)
    keys = ["run/a", "run/d/", "run/d/b", "run/d/e/c"]

    assert [key for key in keys if decision.is_key_selected(spec, key)] == taken
    assert [key for key in keys if decision.is_selected(spec, ListingEntry(key, 1, "e"))] == taken


def test_what_is_deeper_is_neither_copied_nor_removed_nor_unpacked() -> None:
    synced = build_spec("s3://b/run/", "s3://c/in", below=True, delete=True, max_depth=1, max_delete=1)
    unpacked = MemberSelection(build_unpack_spec("s3://b/x.tar", "s3://c/in/", max_depth=2))

    there = [ListingEntry(key, 1, "e") for key in ("in/a", "in/d/b")]
    assert [removal_rules.removable_key(synced, one, "/state") for one in there] == ["run/a", None]
    assert [unpacked.wants(name) for name in ("a", "d/b", "d/e/c")] == [True, True, False]
    assert not selects_everything(synced)


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 910.0), ("2m", 880.0), ("1970-01-01T00:10:00Z", 600.0), ("1970-01-02", 86_400.0)]
)
def test_an_age_is_a_span_or_a_time(written: str, seconds: float) -> None:
    assert parse_time(written, 1000.0) == seconds


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        (Conditions(names=Names(("*.txt",))), "*.txt"),
        (Conditions(filters=Filters(2, 1)), "--min-size"),
        (Conditions(names=Names(max_depth=0)), "--max-depth 0"),
        (Conditions(filters=Filters(newer_than="soon")), "--newer-than: 'soon'"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused_by_name(selection: Conditions, named: str) -> None:
    with pytest.raises(UsageError) as why:
        check_conditions(selection)
    assert named in str(why.value)
