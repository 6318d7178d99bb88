"""Leaves out the tests of lanes that this run does not take (README.md, "Lanes")."""

from __future__ import annotations

import os

import lanes
import pytest


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps a test of a lane if one of its lanes is chosen. Without a choice, as by hand, every test stays."""
    chosen = os.environ.get(lanes.VARIABLE)
    if chosen is None:
        return
    table = lanes.read_lanes()
    runs = lanes.named(chosen, table)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        of = [name for name, lane in table.items() if lane.has(item.nodeid)]
        (left_out if of and not set(of) & set(runs) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
