"""Limits of a transfer and of a place hold over all workers together."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli

from support.sim import Simulator
from support.waiting import eventually

pytestmark = pytest.mark.postgres


def _limits(cli: Cli, env: dict[str, str]) -> list[int]:
    """Requests in flight that each worker alive may have, in their order."""
    ran = cli.run("workers", "--json", env=env)
    assert ran.code == 0, ran.err
    alive: list[dict[str, Any]] = [json.loads(line) for line in ran.out.splitlines()]
    alive = [one for one in alive if one.get("state", "alive") == "alive" and one.get("kind") == "worker"]
    return sorted(one["limits"]["max_requests"] for one in alive if one["limits"] is not None)


def test_workers_share_the_limits_of_a_transfer_and_of_a_place(cli: Cli, postgres_url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[limit]]\nplace = "s3://ours/"\nmax_requests = 30\n')
    with Simulator("--bucket", "vendor=keys=run/{i:06}.fastq.gz;count=60000;total=60GiB", "--bucket", "ours") as sim:
        env = {**sim.environment(), "SEQFERRY_DATABASE_URL": postgres_url, "SEQFERRY_CONFIG": str(config)}
        workers = [cli.start("worker", "--state-dir", str(tmp_path / f"worker{n}"), env=env) for n in range(2)]
        for worker in workers:
            eventually(lambda one=worker: "is ready" in one.stderr, what="the worker")
        started = cli.run("cp", "s3://vendor/run/", "s3://ours/run/", "--detach", env=env)
        assert started.code == 0, started.err
        transfer_id = started.out.strip()

        eventually(lambda: _limits(cli, env) == [15, 15], what="equal shares of the limit at the place", deadline=60)
        assert cli.run("set", transfer_id, "--max-requests", "8", env=env).code == 0
        eventually(lambda: _limits(cli, env) == [4, 4], what="equal shares of the transfer's limit", deadline=60)
        workers[0].signal(signal.SIGKILL)
        eventually(lambda: 8 in _limits(cli, env), what="the share of the dead worker", deadline=60)

        assert cli.run("cancel", transfer_id, "--detach", env=env).code == 0
