"""One writer for each prefix: the claim of a gateway on the place of a share, and gateways that meet it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from seqferry.engine.crash_points import CLAIMS, VARIABLE
from support import nfs_calls
from support.buckets import CLAIM, bodies, keys
from support.gateways import WrittenShares, names, need_libnfs, written_share
from support.own_server import OwnServer
from support.processes import run, seqferry
from support.servers import MOVER, S3Server, free_ports
from support.waiting import eventually

NEVER: Final = "settle = 86400"

Serving = Callable[..., WrittenShares]


@pytest.fixture(autouse=True)
def _libnfs() -> None:
    need_libnfs()


def refused(server: S3Server, folder: Path, config: str, *options: str, crash_at: str = "") -> tuple[int, str]:
    """Exit code and stderr of a gateway that does not start, with a cache of its own in ``folder``."""
    folder.mkdir(exist_ok=True)
    (folder / "gateway.toml").write_text(config, encoding="utf-8")
    environment = {
        **server.environment(),
        "SEQFERRY_CONFIG": str(folder / "gateway.toml"),
        "SEQFERRY_STATE_DIR": str(folder / "gateway-state"),
        VARIABLE: crash_at,
    }
    command = [seqferry(), "gateway", "serve", "--port", "0", "--cache", folder / "cache", *options]
    ended = run(command, environment=environment, expect=None)
    assert "is served at" not in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


def claim(server: S3Server, bucket: str, prefix: str = "runs/") -> dict[str, Any]:
    return dict(json.loads(server.client().get_object(Bucket=bucket, Key=prefix + CLAIM)["Body"].read()))


def has_claim(server: S3Server, bucket: str, prefix: str = "runs/") -> bool:
    return prefix + CLAIM in keys(server, bucket)


def runs(bucket: str, *lines: str) -> str:
    return written_share("runs", f"s3://{bucket}/runs/", *(lines or (NEVER,)))


@pytest.mark.every_server
def test_a_second_gateway_on_a_prefix_is_refused_with_one_line_and_serves_nothing(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket, other = make_bucket(s3server), make_bucket(s3server)
    first = serving(s3server, runs(bucket), name="first")
    here = os.uname().nodename

    config = written_share("other", f"s3://{other}/x/") + written_share("mine", f"s3://{bucket}/runs/")
    status, said = refused(s3server, tmp_path / "second", config)
    _, below = refused(s3server, tmp_path / "third", written_share("deep", f"s3://{bucket}/runs/r1/d/"))

    since = claim(s3server, bucket)["since"]
    assert status in {1, 2}
    assert said.startswith(
        f"seqferry: share mine: the gateway on {here} writes to s3://{bucket}/runs/ (share runs, since {since}; "
    )
    assert "seqferry gateway drain" in said
    assert "--take-over" in said
    assert said.count("\n") == 1
    assert f"share deep: the gateway on {here} writes to s3://{bucket}/runs/ (share runs, " in below
    assert keys(s3server, other) == []
    assert keys(s3server, bucket) == [f"runs/{CLAIM}"]
    first.write("runs/a", b"a")
    first.ask("flush", "--wait")
    assert bodies(s3server, bucket) == {"runs/a": b"a"}


@pytest.mark.every_server
def test_a_gateway_whose_place_is_taken_uploads_nothing_more_until_the_other_one_has_ended(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    [port] = free_ports(1)
    first = serving(s3server, runs(bucket), "--metrics", f"127.0.0.1:{port}", name="first")
    first.write("runs/same", b"first")

    second = serving(s3server, runs(bucket), "--take-over", name="second")
    second.write("runs/same", b"second")
    second.ask("flush", "--wait")
    first.write("runs/late", b"late")
    failed = first.ask("flush", "--wait", expect=1).stderr

    # The first flush looks at the claim before it sends anything.
    assert "/runs/late: the gateway on " in failed
    assert bodies(s3server, bucket) == {"runs/same": b"second"}
    writing = first.writing()
    assert (writing["dirty_files"], writing["conflicts"]) == (2, 0)
    assert f"writes to s3://{bucket}/runs/ (share runs, " in writing["claimed_by"]
    assert "/runs: nothing is uploaded: the gateway on " in first.ask("status").stdout
    with pytest.raises(urllib.error.HTTPError) as unhealthy:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30)
    unhealthy.value.close()
    assert unhealthy.value.code == 503
    assert second.writing()["claimed_by"] is None

    second.ask("drain")
    assert second.process.wait() == 0
    first.ask("flush", "--wait")

    found = bodies(s3server, bucket)
    kept = [key for key in found if key.startswith("runs/.seqferry-conflicts/same.")]
    assert {found.pop(key) for key in kept} == {b"first"}
    assert found == {"runs/same": b"second", "runs/late": b"late"}
    assert first.writing()["claimed_by"] is None
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30).status == 200


def test_a_claim_goes_with_its_gateway_when_nothing_waits_and_stays_with_its_cache_else(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    shares = serving(s3server, runs(bucket), name="first")
    shares.write("runs/a", b"a")
    shares.process.signal(signal.SIGTERM)
    assert shares.process.wait() == 0
    assert has_claim(s3server, bucket)
    assert "the gateway on " in refused(s3server, tmp_path / "second", runs(bucket))[1]

    # The cache is moved, and its gateway killed: the claim is what it was.
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "first" / "cache", tmp_path / "moved" / "cache")
    moved = serving(s3server, runs(bucket), name="moved")
    moved.restart()
    versions = s3server.client().list_object_versions(Bucket=bucket, Prefix=f"runs/{CLAIM}")["Versions"]
    assert len(versions) == 1
    moved.ask("flush", "--wait")
    moved.process.signal(signal.SIGTERM)
    assert moved.process.wait() == 0

    assert not has_claim(s3server, bucket)
    last = serving(s3server, runs(bucket), name="last")
    last.ask("drain")
    assert last.process.wait() == 0
    assert not has_claim(s3server, bucket)
    assert bodies(s3server, bucket) == {"runs/a": b"a"}


def test_clients_neither_see_nor_make_nor_replace_the_claim(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    shares = serving(s3server, runs(bucket, "settle = 1", "stale_after = 0"), name="first")
    before = claim(s3server, bucket)
    shares.write("runs/a", b"a")
    assert set(names(shares, "runs")) == {"a"}
    local = tmp_path / "local"
    local.write_bytes(b"mine")
    written = subprocess.run(["nfs-cp", local, shares.url(f"runs/{CLAIM}")], capture_output=True, check=False)
    assert written.returncode != 0
    calls = [sys.executable, "-I", Path(nfs_calls.__file__), shares.url("runs")]
    assert run([*calls, f"rename:a:{CLAIM}"], expect=None).returncode != 0
    # The name is not there: nothing is removed, nothing is renamed.
    run([*calls, f"remove:{CLAIM}", f"rename:{CLAIM}:b"], expect=None)
    shares.ask("flush", "--wait")

    assert claim(s3server, bucket) == before
    assert set(names(shares, "runs")) == {"a"}
    assert bodies(s3server, bucket) == {"runs/a": b"a"}


def test_a_share_that_starts_while_its_bucket_is_away_claims_it_before_its_first_upload(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    own = OwnServer(tmp_path)
    try:
        bucket = own.server.create_bucket()
        first = serving(own.server, runs(bucket), name="first")
        first.write("runs/a", b"a")
        first.process.__exit__()
        second = serving(own.server, runs(bucket), "--take-over", name="second")
        own.stop()
        first.restart()
        own.start()

        failed = first.ask("flush", "--wait", expect=1).stderr
        assert "/runs/a: the gateway on " in failed
        assert own.objects(bucket) == {}
        second.process.signal(signal.SIGTERM)
        assert second.process.wait() == 0
        first.ask("flush", "--wait")
        assert own.objects(bucket) == {"runs/a": b"a"}
        claimed = own.server.client(MOVER).get_object(Bucket=bucket, Key=f"runs/{CLAIM}")["Body"].read()
        assert json.loads(claimed)["since"]
    finally:
        own.stop()


@pytest.mark.parametrize("point", [*sorted(name for name in CLAIMS if "made" in name), "before-PutObject"])
def test_a_gateway_that_ends_as_it_claims_is_started_again_and_has_one_claim(
    point: str, s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    status, said = refused(s3server, tmp_path / "first", runs(bucket), crash_at=point)
    assert status == -signal.SIGABRT, said

    shares = serving(s3server, runs(bucket), name="first")

    versions = s3server.client().list_object_versions(Bucket=bucket)["Versions"]
    assert [version["Key"] for version in versions] == [f"runs/{CLAIM}"]
    assert "the gateway on " in refused(s3server, tmp_path / "second", runs(bucket))[1]
    shares.write("runs/a", b"a")
    shares.ask("drain")
    assert shares.process.wait() == 0
    assert keys(s3server, bucket) == ["runs/a"]


@pytest.mark.parametrize("point", [*sorted(name for name in CLAIMS if "removed" in name), "after-DeleteObject"])
def test_a_gateway_that_ends_as_it_gives_its_claim_up_is_started_again(
    point: str,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    serving: Serving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = make_bucket(s3server)
    monkeypatch.setenv(VARIABLE, point)
    shares = serving(s3server, runs(bucket), name="first")
    monkeypatch.delenv(VARIABLE)
    shares.process.signal(signal.SIGTERM)
    assert shares.process.wait() == -signal.SIGABRT

    shares.restart()
    shares.write("runs/a", b"a")
    shares.ask("drain")

    assert shares.process.wait() == 0
    assert keys(s3server, bucket) == ["runs/a"]


def test_an_identity_that_may_not_write_the_claim_is_told_so_before_anything_is_served(
    s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket, other = make_bucket(s3server), make_bucket(s3server)
    s3server.deny(bucket, f"runs/{CLAIM}", actions=("s3:PutObject",))
    config = written_share("other", f"s3://{other}/x/") + written_share("runs", f"s3://{bucket}/runs/")

    _, said = refused(s3server, tmp_path / "first", config)

    assert f"share runs: the claim s3://{bucket}/runs/{CLAIM} cannot be had: PutObject" in said
    assert said.count("\n") == 1
    assert keys(s3server, other) == []


@pytest.mark.every_server
def test_two_gateways_that_start_at_once_are_one_in_the_end(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    bucket = make_bucket(s3server)

    def start(name: str) -> WrittenShares | str:
        try:
            return serving(s3server, runs(bucket), name=name)
        except RuntimeError as refusal:
            return str(refusal)

    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(start, ["1", "2", "3", "4"]))

    [held] = [one for one in started if isinstance(one, WrittenShares)]
    assert all("the gateway on " in one for one in started if isinstance(one, str)), started
    held.write("runs/a", rng.randbytes(100))
    held.ask("flush", "--wait")
    eventually(lambda: len(bodies(s3server, bucket)) == 1, what="the file")
