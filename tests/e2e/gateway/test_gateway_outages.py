"""A share whose bucket is away: clients write on, nothing but time is lost, and the share can be started."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqferry.model.messages.steps import SERVING
from support.gateways import WrittenShares, need_libnfs, read, written_share
from support.own_server import OwnServer
from support.waiting import eventually

MIB = 1024 * 1024

Serving = Callable[..., WrittenShares]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnServer]:
    need_libnfs()
    server = OwnServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def serving(tmp_path: Path, own: OwnServer) -> Iterator[Serving]:
    made: list[WrittenShares] = []

    def serve(config: str) -> WrittenShares:
        made.append(WrittenShares(tmp_path, own.server, config))
        return made[-1]

    yield serve
    for one in made:
        one.close()


def test_clients_write_on_while_the_bucket_is_away_and_all_files_arrive_once(
    own: OwnServer, serving: Serving, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")  # an upload fails after a second, not after half a minute
    bucket = own.server.create_bucket(versioned=True)
    shares = serving(written_share("runs", f"s3://{bucket}/runs/", "settle = 1", "stale_after = 1"))
    files = {"runs/first": b"first"}
    shares.write("runs/first", files["runs/first"])
    eventually(lambda: own.objects(bucket) == files, what="the first file", deadline=30)

    own.stop()
    # Each is a new name, which the bucket cannot be asked for.
    for number in range(4):
        path, body = f"runs/{number}", rng.randbytes(MIB + number)
        shares.write(path, body)
        files[path] = body
    eventually(lambda: shares.writing()["failing_files"] == 4, what="uploads to fail", deadline=90, every=0.5)
    assert read(shares, "runs/0") == files["runs/0"]
    writing = shares.writing()
    assert writing["dirty_files"] == 4
    assert all(file["cause"].endswith(SERVING["check_network"]) for file in writing["failing"]), writing["failing"]

    own.start()
    shares.ask("flush", "--wait")

    assert own.objects(bucket) == files
    assert own.versions(bucket) == sorted(files)
    writing = shares.writing()
    assert (writing["dirty_files"], writing["failing_files"], writing["conflicts"]) == (0, 0, 0)


def test_a_share_that_was_served_before_starts_while_its_bucket_is_away_and_serves_what_it_has(
    own: OwnServer, serving: Serving, rng: random.Random
) -> None:
    bucket = own.server.create_bucket(versioned=True)
    shares = serving(written_share("runs", f"s3://{bucket}/runs/", "settle = 86400"))
    waiting = rng.randbytes(MIB)
    shares.write("runs/waiting", waiting)
    own.stop()

    shares.restart()

    assert f"s3://{bucket}" in shares.process.stderr
    assert "The share is served with what this machine has of it." in shares.process.stderr
    assert read(shares, "runs/waiting") == waiting
    assert shares.writing()["dirty_files"] == 1
    own.start()
    shares.ask("flush", "--wait")
    assert own.objects(bucket) == {"runs/waiting": waiting}
    assert own.versions(bucket) == ["runs/waiting"]


def test_a_share_that_was_never_served_does_not_start_while_its_bucket_is_away(
    own: OwnServer, serving: Serving
) -> None:
    bucket = own.server.create_bucket()
    own.stop()

    with pytest.raises(RuntimeError, match="share runs: "):
        serving(written_share("runs", f"s3://{bucket}/runs/"))
