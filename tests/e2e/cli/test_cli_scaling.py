"""Workers that a command starts and ends, as many as the work needs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli

from support.processes import seqferry
from support.sim import Simulator
from support.waiting import eventually

pytestmark = pytest.mark.postgres

OBJECTS = 400
"""Of one GiB, so that they are 50 batches: more than a worker keeps for itself."""
_COMMAND = """
case $SEQFERRY_ACTION in
start) setsid {worker} worker --state-dir {folder}/$SEQFERRY_SLOT > {folder}/worker.log 2>&1 &
    echo $! >> {folder}/pids ;;
stop) echo $SEQFERRY_SLOT >> {folder}/stopped ;;
esac
"""


def _workers(cli: Cli, env: dict[str, str]) -> list[dict[str, Any]]:
    ran = cli.run("workers", "--json", env=env)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = [json.loads(line) for line in ran.out.splitlines()]
    return [one for one in found if one.get("kind") == "worker" and one["alive"]]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Of the workers that the command starts, which are killed at the end where they still run."""
    for name in ("pids", "stopped"):
        (tmp_path / name).touch()
    yield tmp_path
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(300)
def test_workers_come_with_the_work_and_go_after_it_and_nothing_is_repeated(
    cli: Cli, postgres_url: str, folder: Path
) -> None:
    bucket = f"vendor=keys=run/{{i:06}}.fastq.gz;count={OBJECTS};total={OBJECTS}GiB"
    with Simulator("--bucket", bucket, "--bucket", "ours") as sim:
        env = {
            **sim.environment(),
            "SEQFERRY_DATABASE_URL": postgres_url,
            "SEQFERRY_AUTOSCALE_MIN": "1",
            "SEQFERRY_AUTOSCALE_MAX": "3",
            "SEQFERRY_AUTOSCALE_DRAIN_MINUTES": "1",
        }
        script = _COMMAND.format(worker=seqferry(), folder=folder)
        words = ("workers", "scale", "--interval", "0.5", "--calm", "3", "--", "sh", "-c", script)
        scaling = cli.start(*words, env=env)
        eventually(lambda: len(_workers(cli, env)) == 1, what="the least number of workers", deadline=60)
        started = cli.run("cp", "s3://vendor/run/", "s3://ours/run/", "--detach", env=env)
        assert started.code == 0, started.err
        eventually(lambda: len(_workers(cli, env)) == 3, what="the largest number of workers", deadline=90)
        assert sorted(one["facts"]["slot"] for one in _workers(cli, env)) == [1, 2, 3]

        # Killed and started again, it goes on with the workers that are there.
        scaling.signal(signal.SIGKILL)
        scaling = cli.start(*words, env=env)
        assert cli.run("watch", started.out.strip(), env=env).code == 0
        eventually(lambda: len(_workers(cli, env)) == 1, what="the least number of workers again", deadline=90)
        eventually(lambda: len((folder / "stopped").read_text().split()) == 2, what="two slots to end", deadline=30)

        scaling.signal(signal.SIGTERM)
        assert scaling.wait(30) == 0
        [last] = _workers(cli, env)
        assert cli.run("workers", "drain", last["name"], "--wait", env=env).code == 0
        assert sim.stats()["operations"]["CompleteMultipartUpload"]["requests"] == OBJECTS
