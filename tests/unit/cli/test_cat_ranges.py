"""Ranges of ``cat``: which bytes of an object they are."""

from __future__ import annotations

import pytest

from seqferry.cli.commands.cat import _parse, _within
from seqferry.model.errors import UsageError


@pytest.mark.parametrize(
    ("written", "size", "expected"),
    [
        ("0-3", 10, (0, 3)),
        ("bytes=0-3", 10, (0, 3)),
        ("4-", 10, (4, 9)),
        ("-2", 10, (8, 9)),
        ("-20", 10, (0, 9)),
        ("8-100", 10, (8, 9)),
        ("9-9", 10, (9, 9)),
        ("0-", 0, (0, -1)),
        ("-5", 0, (0, -1)),
    ],
)
def test_a_range_is_cut_to_the_object(written: str, size: int, expected: tuple[int, int]) -> None:
    assert _within(_parse(written), size, written) == expected


@pytest.mark.parametrize(("written", "size"), [("10-", 10), ("11-20", 10), ("1-", 0)])
def test_a_range_behind_the_end_is_refused_with_the_size(written: str, size: int) -> None:
    with pytest.raises(UsageError, match=rf"--range {written} begins after the end: the object has {size} bytes"):
        _within(_parse(written), size, written)


@pytest.mark.parametrize("written", ["", "-", "x", "3-1", "1", "1-2-3", "1,2"])
def test_what_is_no_range_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="is not a range; write 0-99, 100- or -100"):
        _parse(written)
