"""Commands that may take little memory: they end, and are not killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cgroups import ControlGroup
from support.processes import RunningProcess, seqferry
from support.sim import Simulator

MIB = 1 << 20


def test_a_transfer_with_thousands_of_requests_ends_in_a_small_container(
    make_simulator: Callable[..., Simulator], tmp_path: Path
) -> None:
    # As Table 1 of the paper, with fewer objects: without a look at the limit 3,400 requests in flight were too many.
    files = {"keys": "run/sample_{i:05}.fastq.gz", "count": 32, "size": "40GiB"}
    simulator = make_simulator(
        "--bucket", "vendor=" + json.dumps({"objects": [files]}), "--bucket", "ours", "--set", "time_scale=4"
    )
    environment = {**simulator.environment(), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    try:
        group = ControlGroup(224 * MIB)
    except OSError as why:
        pytest.skip(f"this user cannot make a control group that counts memory: {why}")
    with group:
        command = group.command(seqferry(), "cp", "s3://vendor/run/", "s3://ours/run/")
        with RunningProcess(command, environment=environment) as copying:
            assert copying.wait() == 0, copying.stderr
    simulator.assert_same("vendor/run/", "ours/run/", objects=32)


@pytest.mark.parametrize("limit", ["-v", "-d"])
def test_a_transfer_ends_within_a_limit_of_addresses(
    make_simulator: Callable[..., Simulator], tmp_path: Path, limit: str
) -> None:
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run/f{i:05};count=600;size=100KiB")
    environment = {**simulator.environment(), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    command = [str(seqferry()), "cp", "s3://vendor/run/", str(tmp_path / "here/")]
    limited = ["sh", "-c", f'ulimit {limit} 500000 && exec "$@"', "sh", *command]
    with RunningProcess(limited, environment=environment) as copying:
        assert copying.wait() == 0, copying.stderr
    assert len(list((tmp_path / "here").iterdir())) == 600
