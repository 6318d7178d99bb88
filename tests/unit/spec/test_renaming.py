"""Rules that rename: what they make of names, and what is refused."""

from __future__ import annotations

import pytest

from seqferry.model.errors import UsageError
from seqferry.spec.renaming import check, rename


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (["s/_R([12])_001/.\\1/"], "run/a_R1_001.fastq.gz", "run/a.1.fastq.gz"),
        (["s/a/b/"], "aaa", "baa"),
        (["s/a/b/g"], "aaa", "bbb"),
        (["s/A/b/gi"], "aAa", "bbb"),
        (["s|/|__|g"], "x/y/z", "x__y__z"),
        (["s/\\//_/"], "x/y", "x_y"),
        (["s/.*/[&]/"], "x", "[x]"),
        (["s/x/\\&/"], "x", "&"),
        (["s/x/\\\\/"], "x", "\\"),
        (["s/^/sub\\0\\/"], "x", None),
        (["s/^/new\\//"], "x", "new/x"),
        (["s/(b)?x/\\1y/"], "ax", "ay"),
        (["s/a/b/", "s/b/c/"], "a", "c"),
        (["s/nothing/x/"], "ü \n", "ü \n"),
        (["s/\n/_/"], "a\nb", "a_b"),
    ],
)
def test_names_are_changed_as_sed_does(rules: list[str], name: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(UsageError):
            check(rules)
        return
    check(rules)

    assert rename(tuple(rules), name) == expected


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("", "not a rule"),
        ("s", "not a rule"),
        ("y/a/b/", "not a rule"),
        ("s/a/b", "three '/'"),
        ("s/a", "three '/'"),
        ("s/a/b/\\", "three '/'"),
        ("s//b/", "pattern is empty"),
        ("s/a/b/gx", "'x' is not a flag"),
        ("s/a/b/gg", "is not a flag"),
        ("s/(/b/", "not a regular expression"),
        ("s/a/\\2/", "names group 2"),
        ("s/a/\\n/", "has no meaning"),
        ("s/" + "a" * 1000 + "/b/", "at most 1000 characters"),
    ],
)
def test_what_is_no_rule_is_refused_with_words(rule: str, named: str) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        check([rule])

    assert not refused.value.message.endswith("..")


def test_groups_may_be_repeated() -> None:
    check(["s/(ab){3}c[(a+)+]?/x/", "s/(a+)+$/b/", "s/((a*)b)*/b/"])

    assert rename(("s/(ab)+c/x/",), "ababc") == "x"
