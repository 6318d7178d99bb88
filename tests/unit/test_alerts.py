"""Alert rules by promtool: each fires when it should, and not otherwise. The board by its structure."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from support.run import MissingToolError, find_tool

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy/monitoring"
GROUPS: dict[str, list[dict[str, Any]]] = {
    group["name"]: group["rules"] for group in yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
}
RULES = [rule for rules in GROUPS.values() for rule in rules]
METRIC = re.compile(r"\bseqferry_[a-z_]+")
BOARD: dict[str, Any] = json.loads((FILES / "board.json").read_text())


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return find_tool("promtool", variable="SEQFERRY_PROMTOOL", hint="run tools/promtool (Debian)")
    except MissingToolError as missing:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def test_promtool_takes_the_rules(promtool: Path) -> None:
    said = subprocess.run(
        [promtool, "check", "rules", FILES / "alerts.yaml"], capture_output=True, text=True, check=False
    )

    assert said.returncode == 0, said.stderr + said.stdout
    assert f"{len(RULES)} rules found" in said.stdout


ALIVE = {"seqferry_workers": "1x180", "seqferry_oldest_waiting_seconds": "0x180"}
WORK = {"seqferry_backlog_batches": "3x180", "seqferry_backlog_bytes": "1e12x180"}
MOVES = {'seqferry_transfer_bytes_per_second{transfer="a", operation="transfer"}': "1e6x180"}
STILL = {'seqferry_transfer_bytes_per_second{transfer="a", operation="transfer"}': "0x180"}
GIVEN_UP = 'seqferry_notices{state="given_up"}'
FAILED = 'seqferry_transfers{state="failed"}'
LEFT_FAILURES = 'seqferry_transfers{state="done_with_failures"}'

SHARE = '{instance="a", share="runs"}'
OTHER_SHARE = '{instance="a", share="more"}'
DIRTY, FREE = f"seqferry_gateway_dirty_bytes{SHARE}", f"seqferry_gateway_free_bytes{SHARE}"
OLDEST, FAILING = f"seqferry_gateway_oldest_dirty_seconds{SHARE}", f"seqferry_gateway_failing_files{SHARE}"
SYNCS = f"seqferry_gateway_sync_p99_seconds{SHARE}"
CONFLICTS, WINDOW = f"seqferry_gateway_conflicts{SHARE}", f"seqferry_gateway_upload_window_open{SHARE}"
SENT_BYTES, SENT_FILES = (f"seqferry_gateway_uploaded_{what}_total{SHARE}" for what in ("bytes", "files"))
NOTHING_IS_SENT = {SENT_BYTES: "9e9x180", SENT_FILES: "7x180"}

CASES: list[tuple[str, str, dict[str, str], bool]] = [
    ("SeqferryDown", "one of two", {'up{job="seqferry", instance="a"}': "1x90 0x90"}, True),
    ("SeqferryDown", "all answer", {'up{job="seqferry", instance="a"}': "1x180"}, False),
    ("SeqferryDown", "of another job", {'up{job="other", instance="a"}': "0x180"}, False),
    ("SeqferryNoWorker", "work and none", {**WORK, "seqferry_workers": "0x180"}, True),
    ("SeqferryNoWorker", "no work", {"seqferry_backlog_batches": "0x180", "seqferry_workers": "0x180"}, False),
    ("SeqferryNoWorker", "a worker", {**WORK, **ALIVE}, False),
    (
        "SeqferryNoWorker",
        "a server of which the figures are old",
        {**WORK, 'seqferry_workers{instance="a"}': "0x180", 'seqferry_workers{instance="b"}': "1x180"},
        False,
    ),
    ("SeqferryTransferWaits", "for long", {**ALIVE, "seqferry_oldest_waiting_seconds": "4000x180"}, True),
    ("SeqferryTransferWaits", "a while", {**ALIVE, "seqferry_oldest_waiting_seconds": "3000x180"}, False),
    ("SeqferryTransferFailed", "the first", {**ALIVE, FAILED: "_x115 1x60"}, True),
    ("SeqferryTransferFailed", "another", {**ALIVE, FAILED: "3x115 4x60", LEFT_FAILURES: "2x180"}, True),
    ("SeqferryTransferFailed", "some objects", {**ALIVE, FAILED: "3x180", LEFT_FAILURES: "0x115 1x60"}, True),
    ("SeqferryTransferFailed", "long ago", {**ALIVE, FAILED: "0x60 1x120"}, False),
    (
        "SeqferryTransferFailed",
        "before anything was scraped",
        {FAILED: "_x115 4x60", "seqferry_workers": "_x115 1x60"},
        False,
    ),
    ("SeqferryNoProgress", "nothing moves", {**ALIVE, **WORK, **STILL}, True),
    ("SeqferryNoProgress", "some move", {**ALIVE, **WORK, **MOVES}, False),
    ("SeqferryNoProgress", "no worker", {**WORK, **STILL, "seqferry_workers": "0x180"}, False),
    ("SeqferryNoProgress", "nothing is left", {**ALIVE, **STILL, "seqferry_backlog_bytes": "0x180"}, False),
    ("SeqferryNoticesFail", "the first", {**ALIVE, GIVEN_UP: "0x100 1x80"}, True),
    ("SeqferryNoticesFail", "long ago", {**ALIVE, GIVEN_UP: "0x30 1x150"}, False),
    ("SeqferryNoticesFail", "one waits", {**ALIVE, "seqferry_oldest_notice_seconds": "4000x180"}, True),
    ("SeqferryNoticesFail", "one is tried", {**ALIVE, "seqferry_oldest_notice_seconds": "600x180"}, False),
    ("SeqferryDatabaseSlow", "slow", {"seqferry_database_reading_seconds": "7x180"}, True),
    ("SeqferryDatabaseSlow", "once", {"seqferry_database_reading_seconds": "0.1x115 7x3 0.1x60"}, False),
    ("SeqferryGatewayDown", "one of two", {'up{job="seqferry-gateway", instance="a"}': "1x90 0x90"}, True),
    ("SeqferryGatewayDown", "it answers", {'up{job="seqferry-gateway", instance="a"}': "1x180"}, False),
    ("SeqferryGatewayDown", "a server", {'up{job="seqferry", instance="a"}': "0x180"}, False),
    ("SeqferryGatewayUnhealthy", "failed", {'seqferry_gateway_healthy{instance="a"}': "1x100 0x80"}, True),
    ("SeqferryGatewayUnhealthy", "healthy", {'seqferry_gateway_healthy{instance="a"}': "1x180"}, False),
    ("SeqferryGatewayDiskSlow", "slow for half an hour", {SYNCS: "1x180"}, True),
    ("SeqferryGatewayDiskSlow", "slow once", {SYNCS: "0.01x90 1x2 0.01x90"}, False),
    ("SeqferryGatewayCacheFull", "nearly", {DIRTY: "81e9x180", FREE: "19e9x180"}, True),
    ("SeqferryGatewayCacheFull", "half", {DIRTY: "50e9x180", FREE: "50e9x180"}, False),
    ("SeqferryGatewayCacheFull", "of nothing that waits", {DIRTY: "0x180", FREE: "1e9x180"}, False),
    ("SeqferryGatewayCacheFull", "of other files", {DIRTY: "0x180", FREE: "0x180"}, True),
    (
        "SeqferryGatewayCacheFull",
        "by two shares of one cache",
        {
            DIRTY: "41e9x180",
            FREE: "19e9x180",
            f"seqferry_gateway_dirty_bytes{OTHER_SHARE}": "40e9x180",
            f"seqferry_gateway_free_bytes{OTHER_SHARE}": "19e9x180",
        },
        True,
    ),
    ("SeqferryGatewayFilesWait", "and nothing is sent", {OLDEST: "3700x180", WINDOW: "1x180", **NOTHING_IS_SENT}, True),
    (
        "SeqferryGatewayFilesWait",
        "while much is sent",
        {OLDEST: "3700x180", WINDOW: "1x180", SENT_BYTES: "1e9x90 2e9x20 3e9x70", SENT_FILES: "7x180"},
        False,
    ),
    (
        "SeqferryGatewayFilesWait",
        "while empty files are sent",
        {OLDEST: "3700x180", WINDOW: "1x180", SENT_BYTES: "0x180", SENT_FILES: "7x110 8x70"},
        False,
    ),
    (
        "SeqferryGatewayFilesWait",
        "for a window that has opened just now",
        {OLDEST: "50000x180", WINDOW: "0x110 1x70", **NOTHING_IS_SENT},
        False,
    ),
    ("SeqferryGatewayFilesWait", "for more than a day", {OLDEST: "94000x180", WINDOW: "0x180"}, True),
    ("SeqferryGatewayFilesWait", "a while", {OLDEST: "3500x180", WINDOW: "1x180", **NOTHING_IS_SENT}, False),
    ("SeqferryGatewayFilesFail", "for long", {FAILING: "0x100 2x80"}, True),
    ("SeqferryGatewayFilesFail", "a while", {FAILING: "0x115 2x80"}, False),
    ("SeqferryGatewayConflict", "the first", {CONFLICTS: "0x115 1x60"}, True),
    ("SeqferryGatewayConflict", "another", {CONFLICTS: "3x115 4x60"}, True),
    ("SeqferryGatewayConflict", "after a restart without those that were removed", {CONFLICTS: "3x30 0x85 1x60"}, True),
    ("SeqferryGatewayConflict", "counted again after a restart", {CONFLICTS: "3x110 0x5 3x60"}, False),
    ("SeqferryGatewayConflict", "long ago", {CONFLICTS: "0x60 1x120"}, False),
]


def test_every_alert_is_tried_both_ways() -> None:
    tried = {(alert, fires) for alert, _, _, fires in CASES}

    assert tried == {(rule["alert"], fires) for rule in RULES for fires in (True, False)}


@pytest.mark.parametrize(
    ("alert", "_case", "series", "fires"), CASES, ids=lambda one: one if isinstance(one, str) else ""
)
def test_an_alert_fires_when_it_should(
    promtool: Path, tmp_path: Path, alert: str, _case: str, series: dict[str, str], fires: bool
) -> None:
    """Series by the minute; the look is after two hours."""
    trial = {
        "rule_files": [str(FILES / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": _repeated(values)} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
                        "eval_time": "2h",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "trial.yaml"
    file.write_text(yaml.safe_dump(trial))

    said = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stderr + said.stdout


def _repeated(values: str) -> str:
    """``1x3`` as three values of 1; promtool's own form gives one more."""
    return " ".join(
        " ".join([value] * int(count)) for value, _, count in (one.partition("x") for one in values.split())
    )


def test_each_alert_says_the_next_step_and_is_in_the_documentation() -> None:
    page = (ROOT / "docs/operate/metrics.md").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        summary = rule["annotations"]["summary"]
        assert re.search(r"\b(Look|Start|seqferry \w+)\b", summary), rule["alert"]
        assert f"| `{rule['alert']}` |" in page
    assert set(re.findall(r"`(Seqferry\w+)`", page)) == {rule["alert"] for rule in RULES}


def problems(board: dict[str, Any]) -> list[str]:
    """Faults in the structure of a board, as Grafana would stumble over them."""
    found = [
        f"no {name}" for name in ("uid", "title", "schemaVersion", "panels", "templating", "time") if name not in board
    ]
    variables = {one["name"] for one in board.get("templating", {}).get("list", ())}
    taken: set[tuple[int, int]] = set()
    ids: set[int] = set()
    for panel in board.get("panels", ()):
        name = panel.get("title", "?")
        if panel["id"] in ids:
            found.append(f"{name}: an id of another panel")
        ids.add(panel["id"])
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        if cells & taken or grid["x"] + grid["w"] > 24:
            found.append(f"{name}: lies on another panel, or outside")
        taken |= cells
        if panel["type"] not in ("timeseries", "stat") or not panel["fieldConfig"]["defaults"]["unit"]:
            found.append(f"{name}: of an unknown type, or without a unit")
        letters = [one["refId"] for one in panel["targets"]]
        if not letters or len(set(letters)) != len(letters):
            found.append(f"{name}: no query, or two of one name")
        used = {
            match
            for one in [panel, *panel["targets"]]
            for match in re.findall(r"\$\{(\w+)\}", one["datasource"]["uid"])
        }
        if not used or used - variables:
            found.append(f"{name}: a data source that no variable names")
    return found


SCHEMA = jsonschema_rs.validator_for(json.loads((Path(__file__).parent / "data/grafana-board.schema.json").read_text()))


def test_the_board_is_one_by_the_schema_of_grafana() -> None:
    assert [f"{error.instance_path}: {error.message[-300:]}" for error in SCHEMA.iter_errors(BOARD)] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda board: board.update(tilte="Seqferry"),
        lambda board: board.update(refresh=30),
        lambda board: board.pop("schemaVersion"),
        lambda board: board["panels"][0].update(transparent="yes"),
        lambda board: board["panels"][0].update(type="singlestat"),
        lambda board: board["panels"][6]["gridPos"].pop("w"),
        lambda board: board["panels"][6]["options"]["legend"].update(placement="below"),
        lambda board: board["panels"][6]["options"]["tooltip"].pop("sort"),
        lambda board: board["panels"][6]["fieldConfig"]["defaults"]["custom"].update(drawStyle="lines"),
        lambda board: board["templating"]["list"][0].update(type="source"),
    ],
)
def test_the_schema_refuses_what_grafana_does_not_know(change: Any) -> None:
    board = json.loads(json.dumps(BOARD))
    change(board)

    assert not SCHEMA.is_valid(board)


def test_the_board_shows_workers_queue_and_gateway_by_names_that_are_documented() -> None:
    page = (ROOT / "docs/operate/metrics.md").read_text()
    shown = {name for panel in BOARD["panels"] for one in panel["targets"] for name in METRIC.findall(one["expr"])}

    assert {"seqferry_workers", "seqferry_queue_batches", "seqferry_gateway_dirty_files"} <= shown
    assert {name.removesuffix("_bucket") for name in shown} <= set(METRIC.findall(page))


def test_the_board_shows_all_that_alerts_of_gateways_speak_of() -> None:
    asked = {name for rule in GROUPS["seqferry-gateway"] for name in METRIC.findall(rule["expr"])}
    shown = {name for panel in BOARD["panels"] for one in panel["targets"] for name in METRIC.findall(one["expr"])}

    assert len(asked) > 7
    assert asked <= shown


def test_the_board_is_whole() -> None:
    assert problems(BOARD) == []
    assert len(BOARD["panels"]) > 10


@pytest.mark.parametrize(
    "change",
    [
        lambda board: board.pop("uid"),
        lambda board: board["panels"][1].update(id=1),
        lambda board: board["panels"][1]["gridPos"].update(x=0),
        lambda board: board["panels"][1].update(type="graph"),
        lambda board: board["panels"][1].update(targets=[]),
        lambda board: board["templating"].update(list=[]),
    ],
)
def test_a_fault_in_the_board_would_be_found(change: Any) -> None:
    board = json.loads(json.dumps(BOARD))
    change(board)

    assert problems(board)


def test_promtool_takes_the_queries_of_the_board(promtool: Path, tmp_path: Path) -> None:
    queries = [one["expr"] for panel in BOARD["panels"] for one in panel["targets"]]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))

    said = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stderr + said.stdout
