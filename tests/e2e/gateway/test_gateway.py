"""Shares of a gateway, read by a client of another project in user space, on real servers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.gateways import ServedShares, missing_libnfs, names, read
from support.processes import run, seqferry
from support.servers import S3Server

MIB = 1024 * 1024

Serving = Callable[..., ServedShares]


@pytest.fixture(autouse=True)
def _libnfs() -> None:
    """Skips where there is no client, and says so; where everything must be there, fails."""
    if (missing := missing_libnfs()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made: list[ServedShares] = []

    def serve(server: S3Server, config: str, *options: str) -> ServedShares:
        made.append(ServedShares(tmp_path, server, config, *options))
        return made[-1]

    yield serve
    for one in made:
        one.close()


def share(name: str, source: str, *lines: str) -> str:
    return "\n".join(["[[share]]", f'name = "{name}"', f'source = "{source}"', *lines, ""])


def put(server: S3Server, bucket: str, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        server.client().put_object(Bucket=bucket, Key=key, Body=body)


@pytest.mark.every_server
def test_shares_list_and_read_what_the_bucket_holds(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(s3server)
    objects = {
        "runs/a": b"",
        "runs/one": b"1",
        "runs/é ü/空白": rng.randbytes(4097),
        "runs/deep/er/x": rng.randbytes(128 * 1024 + 1),
        "runs/large.bin": rng.randbytes(9 * MIB + 77),
    }
    objects |= {f"runs/many/{number:04}": rng.randbytes(number % 50) for number in range(200)}
    put(s3server, bucket, objects | {"other/x": b"x"})
    config = share("runs", f"s3://{bucket}/runs/") + share("other", f"s3://{bucket}/other")
    shares = serving(s3server, config)

    assert names(shares, "other") == {"x": 1}
    assert set(names(shares, "runs")) == {"a", "one", "é ü", "deep", "large.bin", "many"}
    assert names(shares, "runs/many") == {f"{number:04}": number % 50 for number in range(200)}
    for key in ("runs/a", "runs/one", "runs/é ü/空白", "runs/deep/er/x", "runs/large.bin"):
        expected = s3server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        assert read(shares, key) == expected, key
    absent = subprocess.run(["nfs-cat", shares.url("runs/absent")], capture_output=True, check=False, timeout=60)
    assert absent.returncode != 0
    assert b"NOENT" in absent.stderr

    shares.process.signal(signal.SIGTERM)
    assert shares.process.wait() == 0


def test_a_gateway_that_was_killed_serves_the_same_again_with_its_cache(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    body = rng.randbytes(3 * MIB)
    put(s3server, bucket, {"runs/a.bam": body})
    shares = serving(s3server, share("runs", f"s3://{bucket}/runs/"), "--cache", str(tmp_path / "cache"))
    assert read(shares, "runs/a.bam") == body
    shares.restart()
    assert read(shares, "runs/a.bam") == body
    state = Path(shares.environment["SEQFERRY_STATE_DIR"]) / "gateway"
    assert (state / "handles.key").stat().st_mode & 0o777 == 0o600
    refused = run([seqferry(), "gateway", "serve", "--port", "0"], environment=dict(shares.environment), expect=None)
    assert refused.returncode == 1
    assert "another gateway uses" in refused.stderr


@pytest.mark.parametrize("traced", [False, True])
def test_warnings_are_told_on_stderr(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    serving: Serving,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    traced: bool,
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"runs/a": b"bytes"})
    trace = tmp_path / "trace"
    if traced:
        monkeypatch.setenv("SEQFERRY_TRACE", str(trace))
    shares = serving(s3server, share("runs", f"s3://{bucket}/runs/", 'clients = ["10.9.9.9"]'))
    refused = subprocess.run(["nfs-ls", shares.url("runs")], capture_output=True, check=False, timeout=60)
    assert refused.returncode != 0
    line = "connections are closed since no share lists their address among its clients: 1, the last of 127.0.0.1"
    shares.process.wait_for_output(f"seqferry gateway: {line}")
    assert f"seqferry gateway: {line}" in shares.process.stderr
    assert not traced or line in trace.read_text()


def test_wrong_shares_are_refused_with_one_line(
    s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"runs/a.bam": b"bytes"})
    config = tmp_path / "gateway.toml"
    environment = {
        **s3server.environment(),
        "SEQFERRY_CONFIG": str(config),
        "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
    }
    for text, options, said in (
        ("", [], "No share is configured"),
        (share("runs", f"s3://{bucket}/runs/", "settles = 5"), [], "the key 'settles' in [[share]] is not known"),
        (share("runs", "s3://absent-bucket-of-nobody/"), [], "share runs:"),
        (share("runs", f"s3://{bucket}/runs/a.bam"), [], "is an object"),
        (share("runs", f"s3://{bucket}/runs/"), ["--host", "0.0.0.0"], "list its clients"),
        (share("runs", f"s3://{bucket}/runs/"), ["--host", "nowhere"], "'nowhere' is no IP address"),
    ):
        config.write_text(text, encoding="utf-8")
        refused = run([seqferry(), "gateway", "serve", "--port", "0", *options], environment=environment, expect=None)
        assert refused.returncode != 0, said
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr
