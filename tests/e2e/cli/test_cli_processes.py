"""The processes that stay, and the database that many of them can share."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest
from cli_process import Cli, Places, ended

from support.waiting import eventually


def test_serve_does_the_work_and_cp_only_follows(cli: Cli, seaweedfs_places: Places) -> None:
    content = seaweedfs_places.fill(["a", "b"])
    serving = cli.start("serve", "--port", "0")
    url = serving.wait_for_line("http://")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
        assert answer.status == 200

    ran = cli.run("cp", *seaweedfs_places.uris)
    transfer_id = ran.err.split()[1]
    request = urllib.request.Request(f"{url}/api/v1/transfers/{transfer_id}")
    request.add_header("Authorization", f"Bearer {(cli.state / 'token').read_text().strip()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        told = json.load(answer)

    assert ran.code == 0, ran.err
    assert seaweedfs_places.content() == content
    assert told["state"] == "done"
    serving.signal(signal.SIGTERM)
    assert serving.wait(30) == 0


def test_serve_says_which_configuration_holds_for_its_clients(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[server]\nread = ["s3://vendor/"]\n')

    serving = cli.start("serve", "--port", "0", env={"SEQFERRY_CONFIG": str(config)})
    serving.wait_for_line("http://")
    serving.signal(signal.SIGTERM)
    assert serving.wait(30) == 0

    assert f"configuration file: {config}; clients may read below s3://vendor/; write below s3://;" in serving.stderr


def test_serve_beyond_loopback_needs_tokens(cli: Cli) -> None:
    ran = cli.run("serve", "--host", "0.0.0.0", "--port", "0", "--no-token")

    assert ran.code == 1
    assert "--no-token" in ran.err.splitlines()[-1]
    assert ran.out == ""


def test_tokens_are_made_listed_and_removed(cli: Cli) -> None:
    added = cli.run("token", "add", "robot", "--role", "submit", "--expires", "90d")
    again = cli.run("token", "add", "robot")
    cli.run("token", "add", "viewer")
    listed = cli.run("token", "list")

    assert re.fullmatch(r"sfy_[\w-]{43}\n", added.out)
    assert again.code == 1
    assert "seqferry token remove robot" in again.err
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["NAME", "ROLE"],
        ["robot", "submit"],
        ["viewer", "read"],
    ]
    assert added.out.strip() not in listed.out
    assert added.out.strip().encode() not in b"".join(file.read_bytes() for file in cli.state.glob("seqferry.sqlite*"))
    assert cli.run("token", "remove", "robot").code == 0
    assert cli.run("token", "remove", "robot").code == 1
    assert len(cli.run("token", "list").out.splitlines()) == 2


def test_serve_and_worker_are_refused_where_one_is_at_work(cli: Cli) -> None:
    first = cli.start("serve", "--port", "0")
    first.wait_for_line("http://")

    second = cli.run("serve", "--port", "0")

    assert second.code == 1
    assert str(cli.state) in second.err
    assert "Traceback" not in second.err


@pytest.mark.postgres
def test_many_processes_share_a_postgres(cli: Cli, seaweedfs_places: Places, postgres_url: str) -> None:
    content = seaweedfs_places.fill([f"{number:02d}" for number in range(20)])
    env = {"SEQFERRY_DATABASE_URL": postgres_url}
    workers = [cli.start("worker", env=env) for _ in range(2)]
    for worker in workers:
        eventually(lambda running=worker: "is ready" in running.stderr, what="the worker")

    both = [
        cli.start("cp", seaweedfs_places.uris[0], f"{seaweedfs_places.uris[1]}{side}/", env=env) for side in ("l", "r")
    ]

    for running in both:
        ran = ended(running)
        assert ran.code == 0, ran.err
    arrived = seaweedfs_places.content()
    assert arrived == {f"{side}/{key}": body for key, body in content.items() for side in ("l", "r")}
    assert len(cli.run("status", env=env).out.splitlines()) == 3
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.wait(30) == 0


def test_the_password_of_the_database_is_never_shown(cli: Cli) -> None:
    env = {"SEQFERRY_DATABASE_URL": "postgresql://ferry:very-private@127.0.0.1:9/none"}

    ran = cli.run("status", env=env)

    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1, ran.err
    assert "127.0.0.1:9" in ran.err
    assert "very-private" not in ran.err
