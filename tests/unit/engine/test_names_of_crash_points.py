"""Names of crash points: both languages have the same, each is on a line of the product, and others are refused."""

from __future__ import annotations

import re

import pytest

from seqferry.engine import crash_points
from seqferry.model.errors import UsageError
from support.run import ROOT


def test_the_requests_are_those_of_the_engine() -> None:
    source = (ROOT / "crates/store/src/crash_point.rs").read_text()
    listed = re.search(r"REQUESTS: \[&str; \d+\] = \[(.*?)\];", source, re.DOTALL)
    assert listed is not None
    names = re.findall(r'"(\w+)"', listed[1])

    assert {f"{when}-{name}" for name in names for when in ("before", "after")} == crash_points.REQUESTS


def test_each_point_is_reached_by_one_line_of_the_product() -> None:
    sources = [file.read_text() for file in (ROOT / "python/seqferry").rglob("*.py")]
    reached = [name for text in sources for name in re.findall(r'crash_points\.reach\("([^"]+)"\)', text)]

    assert sorted(reached) == sorted(crash_points.POINTS | crash_points.EPOCH_ROWS)


@pytest.mark.parametrize("order", ["no-such-point", "after-plan-ended:x", "PutObject", "after-PutObject:-1", ":1"])
def test_an_order_that_names_no_point_is_refused(order: str) -> None:
    with pytest.raises(UsageError, match="no crash point is called so"):
        crash_points.arm({crash_points.VARIABLE: order})


def test_nothing_is_armed_without_an_order() -> None:
    crash_points.arm({})
    crash_points.reach("after-plan-ended")
