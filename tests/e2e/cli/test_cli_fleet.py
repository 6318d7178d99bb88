"""Commands beside workers on PostgreSQL: they follow, and work where no worker can."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Cli, Places, ended, id_of

from support.proxy import Proxy, hold
from support.servers import ADMIN, S3Server
from support.waiting import eventually

pytestmark = pytest.mark.postgres

_LEFT = "does the work, also without this command"


@pytest.fixture
def fleet(cli: Cli, postgres_url: str, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """``fleet(workers)``: starts so many, and returns the environment of a command at their database."""

    def start(workers: int) -> dict[str, str]:
        env = {"SEQFERRY_DATABASE_URL": postgres_url}
        running = [
            cli.start("worker", "--state-dir", str(tmp_path / f"worker{number}"), env=env) for number in range(workers)
        ]
        for one in running:
            eventually(lambda worker=one: "is ready" in worker.stderr, what="the worker")
        return env

    return start


def test_cp_follows_what_a_worker_does(
    cli: Cli,
    seaweedfs_places: Places,
    fleet: Callable[..., dict[str, str]],
    make_proxy: Callable[[S3Server], Proxy],
) -> None:
    content = seaweedfs_places.fill(["a", "b"])
    proxy = make_proxy(seaweedfs_places.server)
    cli.server = proxy.server
    copies = proxy.rule("CopyObject", hold())
    env = fleet(1)

    running = cli.start("cp", *seaweedfs_places.uris, "--no-progress", env=env)
    eventually(lambda: _LEFT in running.stderr, what="the note on the worker")
    proxy.remove_rule(copies)
    ran = ended(running)

    assert ran.code == 0, ran.err
    assert seaweedfs_places.content() == content
    assert _LEFT in ran.err
    assert "seqferry watch" in ran.err
    report = cli.run("report", ran.err.split()[1], env=env)
    assert report.code == 0, report.err


def test_cp_works_where_no_worker_is(cli: Cli, seaweedfs_places: Places, fleet: Callable[..., dict[str, str]]) -> None:
    content = seaweedfs_places.fill(["a", "b"])
    env = fleet(0)

    ran = cli.run("cp", *seaweedfs_places.uris, "--no-progress", env=env)

    assert ran.code == 0, ran.err
    assert seaweedfs_places.content() == content
    assert _LEFT not in ran.err


def test_cp_works_where_no_worker_can_be_what_the_transfer_needs(
    cli: Cli, seaweedfs_places: Places, fleet: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    content = seaweedfs_places.fill(["a", "b"])
    env = fleet(1)
    assert cli.server is not None
    variables = cli.server.environment(ADMIN)
    profile = tmp_path / "credentials"
    profile.write_text(
        f"[lab]\naws_access_key_id = {variables['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {variables['AWS_SECRET_ACCESS_KEY']}\n"
    )
    mine = {**env, "AWS_SHARED_CREDENTIALS_FILE": str(profile)}

    ran = cli.run("cp", *seaweedfs_places.uris, "--no-progress", "--profile", "lab", env=mine)

    assert ran.code == 0, ran.err
    assert seaweedfs_places.content() == content
    assert "No connected worker can run the transfer; this command runs it." in ran.err


def test_a_transfer_goes_on_when_the_command_that_follows_it_is_killed(
    cli: Cli, seaweedfs_places: Places, fleet: Callable[..., dict[str, str]]
) -> None:
    content = seaweedfs_places.fill([f"{number:03d}" for number in range(60)])
    env = fleet(2)

    running = cli.start("cp", *seaweedfs_places.uris, "--no-progress", env=env)
    transfer_id = id_of(running)
    running.kill()

    watched = ended(cli.start("watch", transfer_id, env=env))
    assert watched.code == 0, watched.err
    assert seaweedfs_places.content() == content


def test_ctrl_c_says_that_the_work_goes_on(
    cli: Cli, seaweedfs_places: Places, fleet: Callable[..., dict[str, str]]
) -> None:
    seaweedfs_places.fill(["a"])
    env = fleet(1)
    first = cli.run("cp", *seaweedfs_places.uris, "--detach", env=env)
    assert cli.run("pause", first.out.strip(), env=env).code in (0, 1)  # it may have ended

    # Paused, or waiting for one that is: nothing ends before the signal.
    running = cli.start("cp", *seaweedfs_places.uris, "--no-progress", env=env)
    running.wait_for_output(_LEFT)
    running.signal(signal.SIGINT)
    code = running.wait(30)

    assert code in (0, 130)
    if code == 130:
        assert "continues in another process" in running.stderr
