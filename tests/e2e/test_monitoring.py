"""Alert rules and the board name metrics that a running server has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from seqferry.api import gateway_metrics
from support.processes import RunningProcess, seqferry
from support.run import Run
from support.state import prepare

FILES = Path(__file__).parents[2] / "deploy/monitoring"
_OF_PROMETHEUS = {"up"}


def queries() -> list[str]:
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    panels = json.loads((FILES / "board.json").read_text())["panels"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [rule["expr"] for rule in rules] + [one["expr"] for panel in panels for one in panel["targets"]]


def named(query: str) -> set[str]:
    return set(re.findall(r"\b(?:seqferry_\w+|up)\b", query))


@pytest.fixture
def offered(run: Run, tmp_path: Path) -> set[str]:
    """The names of the series of a server, histograms by those of their buckets."""
    state = prepare(run, tmp_path / "state")
    token = "a-token-of-a-test-that-is-long"
    environment = {"SEQFERRY_STATE_DIR": str(state), "SEQFERRY_TOKEN": token}
    with RunningProcess([seqferry(), "serve", "--port", "0"], environment=environment) as server:
        url = server.wait_for_line("http").strip()
        with urlopen(Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}), timeout=30) as answer:
            text = answer.read().decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    return {f"{name}_bucket" if kind == "histogram" else name for name, kind in kinds.items()}


def test_each_metric_of_a_rule_or_a_panel_is_offered(offered: set[str]) -> None:
    asked = {name for query in queries() for name in named(query)} - _OF_PROMETHEUS

    assert len(asked) > 15
    # Gateways offer theirs themselves (tests/e2e/gateway/test_gateway_control.py).
    assert asked <= offered | {one.name for one in gateway_metrics.METRICS}
