"""Commands that ask a gateway which serves: what waits, what goes now, and its end."""

from __future__ import annotations

import json
import random
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.model.messages.steps import SERVING
from support.buckets import file_keys
from support.gateways import WrittenShares, names, read, written_share
from support.processes import run, seqferry
from support.servers import S3Server, free_ports
from support.waiting import eventually

NEVER = "settle = 86400"

Serving = Callable[..., WrittenShares]


def keys(server: S3Server, bucket: str) -> set[str]:
    return set(file_keys(server, bucket))


def states(shares: WrittenShares, path: str) -> dict[str, str]:
    return {event["name"]: event["state"] for event in shares.events("ls", path)}


def test_status_and_ls_tell_what_waits_and_flush_sends_what_it_names(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(s3server)
    for key in ("runs/there", "runs/r1/x", "runs/r2/x"):
        s3server.client().put_object(Bucket=bucket, Key=key, Body=b"x")
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    shares.write("runs/r1/a", rng.randbytes(1000))
    shares.write("runs/r1/b", rng.randbytes(500))
    shares.write("runs/r2/c", b"c")
    shares.write("runs/.DS_Store", b"c")

    [status] = shares.events("status")

    assert (status["share"], status["source"], status["read_only"]) == ("runs", f"s3://{bucket}/runs/", False)
    assert status["gateway"]["is_healthy"]
    writing = status["writing"]
    assert (writing["dirty_files"], writing["dirty_bytes"]) == (3, 1501)
    assert writing["oldest"]["path"] == "r1/a"
    assert 0 <= writing["oldest"]["age_seconds"] < 120
    assert writing["free_bytes"] > 0
    row = shares.ask("status").stdout.splitlines()[1].split()
    assert row[:5] == ["/runs", "3", "files", "1.5", "KiB"]
    assert states(shares, "/runs") == {"there": "in_s3", "r1": "waiting", "r2": "waiting", ".DS_Store": "ignored"}
    assert states(shares, "runs/r1") == {"a": "waiting", "b": "waiting", "x": "in_s3"}
    assert states(shares, "/runs/r1/a") == {"a": "waiting"}
    assert "2 waiting" in shares.ask("ls", "/runs").stdout

    [flushed] = shares.events("flush", "/runs/r1/", "--wait")

    assert flushed["is_done"]
    assert keys(s3server, bucket) == {"runs/there", "runs/r1/x", "runs/r2/x", "runs/r1/a", "runs/r1/b"}
    assert states(shares, "/runs") == {"there": "in_s3", "r1": "in_s3", "r2": "waiting", ".DS_Store": "ignored"}
    writing = shares.writing()
    assert (writing["dirty_files"], writing["uploaded_files"], writing["uploaded_bytes"]) == (1, 2, 1500)


def test_the_status_of_a_folder_tells_how_many_of_its_files_are_in_s3(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    for number in range(3):
        s3server.client().put_object(Bucket=bucket, Key=f"runs/run42/{number}", Body=b"12345")
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    assert shares.ask("status", "/runs/run42").stdout == "/runs/run42: 3 of 3 files in S3\n"
    shares.write("runs/run42/new", b"123")
    shares.write("runs/run42/.DS_Store", b"x")

    first, oldest, kept = shares.ask("status", "runs/run42/").stdout.splitlines()

    assert first == "/runs/run42: 3 of 4 files in S3"
    assert oldest.startswith("/runs/run42: 3 B to upload; the oldest pending file is /runs/run42/new, for ")
    assert kept == "/runs: kept on this machine by name: 1 file"
    [found] = shares.events("status", "/runs/run42")
    assert (found["in_s3"], found["dirty_bytes"]) == ({"files": 3, "bytes": 15, "is_cut": False}, 3)
    assert (found["dirty_files"], found["dirty_folders"]) == (1, 0)
    assert shares.events("status", "/runs/run42/new")[0]["in_s3"]["files"] == 0
    absent = shares.ask("status", "/runs/absent", expect=1).stderr
    assert absent == "seqferry: There is no /runs/absent; list the names with seqferry gateway ls.\n"
    # The names of the gateway itself are no files of the share.
    shares.ask("flush", "--wait")
    assert shares.ask("status", "/runs").stdout.splitlines()[0] == "/runs: 4 of 4 files in S3"


def test_status_tells_how_much_of_what_is_read_was_here_and_how_long_syncs_take(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket, body = make_bucket(seaweedfs), rng.randbytes(300_000)
    seaweedfs.client().put_object(Bucket=bucket, Key="runs/there", Body=body)
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/", NEVER))

    assert read(shares, "runs/there") == body
    [before] = shares.events("status")
    assert read(shares, "runs/there") == body

    [status] = shares.events("status")
    assert status["read_bytes"] - before["read_bytes"] == 300_000
    assert status["fetched_bytes"] == before["fetched_bytes"] >= 300_000
    here = 100 * (status["read_bytes"] - status["fetched_bytes"]) // status["read_bytes"]
    assert f"/runs: 585.9 KiB of objects were read, {here} % of them without the bucket" in shares.ask("status").stdout
    shares.write("runs/a", b"x")
    assert 0 < shares.writing()["sync_p99_seconds"] < 60


def test_a_file_that_fails_is_named_with_its_cause_by_flush_ls_and_status(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    s3server.deny(bucket, "runs/denied*", actions=("s3:PutObject",))
    shares.write("runs/denied", b"x")
    shares.write("runs/fine", b"x")

    [flushed] = shares.events("flush", "--wait", expect=1)

    assert (flushed["is_done"], flushed["waiting"]) == (False, 1)
    [failing] = flushed["failing"]
    assert (failing["share"], failing["path"]) == ("runs", "denied")
    assert f"s3://{bucket}/runs/denied" in failing["cause"]
    assert failing["cause"].endswith(SERVING["grant_write"]), "nobody runs a command again"
    assert states(shares, "/runs") == {"denied": "failing", "fine": "in_s3"}
    writing = shares.writing()
    assert writing["failing_files"] == 1
    assert writing["failing"][0]["path"] == "denied"


def test_a_refresh_shows_what_other_programs_wrote(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    client = seaweedfs.client()
    for key in ("runs/a", "runs/deep/er/b"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/", NEVER, "stale_after = 86400"))
    assert set(names(shares, "runs")) == {"a", "deep"}
    assert set(names(shares, "runs/deep/er")) == {"b"}
    for key in ("runs/new", "runs/deep/er/new"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert set(names(shares, "runs")) == {"a", "deep"}

    [refreshed] = shares.events("refresh", "/runs")

    assert refreshed["folders"] == 1
    assert set(names(shares, "runs")) == {"a", "deep", "new"}
    assert set(names(shares, "runs/deep/er")) == {"b"}
    [refreshed] = shares.events("refresh", "/runs", "--recursive")
    assert refreshed["folders"] == 3
    assert set(names(shares, "runs/deep/er")) == {"b", "new"}
    assert "folder read again in" in shares.ask("refresh", "/runs/deep").stderr


@pytest.mark.every_server
def test_conflicts_are_listed_with_the_place_where_the_file_is_kept(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    client = s3server.client()
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    assert shares.events("conflicts", expect=4) == []
    shares.write("runs/a.v1", b"ours")
    client.put_object(Bucket=bucket, Key="runs/a.v1", Body=b"theirs")

    shares.ask("flush", "--wait")

    [conflict] = shares.events("conflicts")
    assert (conflict["share"], conflict["path"], conflict["size"]) == ("runs", "a.v1", 4)
    assert client.get_object(Bucket=bucket, Key="runs/a.v1")["Body"].read() == b"theirs"
    assert client.get_object(Bucket=bucket, Key=f"runs/{conflict['kept']}")["Body"].read() == b"ours"
    assert shares.writing()["conflicts"] == 1
    assert "/runs/a.v1" in shares.ask("conflicts").stdout
    # The list of the ranges of a kept file that are not known is no conflict.
    client.put_object(Bucket=bucket, Key=f"runs/{conflict['kept']}.unknown", Body=b"0 999\n")
    assert [one["kept"] for one in shares.events("conflicts")] == [conflict["kept"]]
    shares.restart()
    eventually(lambda: shares.writing()["conflicts"] == 1, what="the conflicts to be counted again")


def test_a_drain_sends_everything_and_ends_the_gateway(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    for number in range(20):
        shares.write(f"runs/{number}", b"x")
    shares.write("runs/Thumbs.db", b"x")

    drained = shares.ask("drain")

    assert "Everything is in S3" in drained.stderr
    assert "Kept on this machine by name: 1 file" in drained.stderr
    assert shares.process.wait() == 0
    assert keys(s3server, bucket) == {f"runs/{number}" for number in range(20)}
    assert not (shares.cache / "gateway.sock").exists()
    gone = shares.ask("status", expect=1).stderr
    assert gone.startswith(f"seqferry: No gateway runs with the cache {shares.cache}")
    assert gone.count("\n") == 1


def test_a_drain_that_cannot_end_says_why_and_goes_on(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    s3server.deny(bucket, "runs/denied*", actions=("s3:PutObject",))
    shares.write("runs/denied", b"x")

    drained = shares.ask("drain", expect=1)

    assert "/runs/denied: " in drained.stderr
    assert "The gateway is draining" in shares.ask("status").stdout
    s3server.deny(bucket, "elsewhere/*")
    assert shares.process.wait() == 0
    assert keys(s3server, bucket) == {"runs/denied"}


def test_wrong_requests_are_answered_with_one_line(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    seaweedfs.client().put_object(Bucket=bucket, Key="fixed/x", Body=b"x")
    config = (
        written_share("runs", f"s3://{bucket}/runs/") + f'[[share]]\nname = "fixed"\nsource = "s3://{bucket}/fixed/"\n'
    )
    shares = serving(seaweedfs, config)
    for arguments, said in (
        (("ls", "/absent"), "there is no share /absent; name one of /runs, /fixed"),
        (("ls", "/fixed/absent"), "the listing of /fixed/absent failed"),
        (("flush", "/fixed"), "the share /fixed is read-only"),
        (("flush", "/runs/absent"), "the flush of /runs/absent failed"),
        (("refresh", "/fixed/absent"), "the refresh of /fixed/absent failed"),
    ):
        refused = shares.ask(*arguments, expect=1)
        assert said in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert states(shares, "/fixed") == {"x": "in_s3"}
    assert "read-only" in shares.ask("status").stdout
    no_cache = run([seqferry(), "gateway", "status", "--cache", str(tmp_path / "absent")], expect=1)
    assert "No gateway runs with the cache" in no_cache.stderr
    for request, said in (
        (b"{}\n", "does not understand the request"),
        (b'{"command": "ls", "path": "/runs", "more": 1}\n', "does not understand the request"),
        (b"x" * 9000, "one line of less than 8192 bytes"),
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(shares.cache / "gateway.sock"))
            connection.sendall(request)
            assert said in json.loads(connection.makefile().readline())["error"]


def test_clients_that_send_nothing_keep_no_command_out(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/"))
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(200)]
    try:
        for number, connection in enumerate(silent):
            connection.connect(str(shares.cache / "gateway.sock"))
            connection.sendall(b'{"command": ' * (number % 2))
        shares.ask("status")
    finally:
        for connection in silent:
            connection.close()


def test_metrics_and_health_are_offered_at_an_address_of_their_own(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    [port] = free_ports(1)
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/", NEVER), "--metrics", f"127.0.0.1:{port}")
    shares.write("runs/a", b"12345")

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.read().decode()

    found = get("/metrics").splitlines()
    assert 'seqferry_gateway_dirty_files{share="runs"} 1.0' in found
    assert 'seqferry_gateway_dirty_bytes{share="runs"} 5.0' in found
    assert "seqferry_gateway_healthy 1.0" in found
    assert json.loads(get("/healthz")) == {"status": "ok"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("/other")
    shares.ask("flush", "--wait")
    found = get("/metrics").splitlines()
    assert 'seqferry_gateway_dirty_files{share="runs"} 0.0' in found
    assert 'seqferry_gateway_uploaded_bytes_total{share="runs"} 5.0' in found
    wrong = run([seqferry(), "gateway", "serve", "--metrics", "nowhere"], environment=shares.environment, expect=2)
    assert "--metrics-listen: 'nowhere' is not an address" in wrong.stderr


def test_a_gateway_whose_address_of_metrics_is_taken_is_refused_before_it_claims_its_prefix(
    seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    config = tmp_path / "config.toml"
    config.write_text(written_share("runs", f"s3://{bucket}/runs/", NEVER))
    environment = {
        **seaweedfs.environment(),
        "SEQFERRY_CONFIG": str(config),
        "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [seqferry(), "gateway", "serve", "--port", "0", "--cache", tmp_path / "cache", "--metrics", place]
        refused = run(command, environment=environment, expect=1)

    assert (
        f"Cannot serve metrics on {place}: Address already in use. Choose another --metrics-listen." in refused.stderr
    )
    assert "Contents" not in seaweedfs.client().list_objects_v2(Bucket=bucket)
    assert not (tmp_path / "cache").exists(), "it never was a gateway"
