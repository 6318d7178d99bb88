"""The helper of the plugin as a process: its lines, what it gives up when it ends, and what it records."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.buckets import MIB, open_uploads
from support.processes import seqferry
from support.proxy import Proxy, hold
from support.servers import S3Server


class _Helper:
    """Requests in, answers out, one after another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.requests, self._answers = process.stdin, process.stdout
        self.hello = self.read()

    def read(self) -> dict[str, Any]:
        return json.loads(self._answers.readline())

    def send(self, **request: Any) -> None:
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send(id=1, **request)
        return self.read()

    def end(self) -> int:
        self.requests.close()
        return self.process.wait(60)


@contextmanager
def _helper(server: S3Server, **environment: str) -> Iterator[_Helper]:
    with subprocess.Popen(
        [seqferry(), "nextflow", "helper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **server.environment(), **environment},
    ) as process:
        try:
            yield _Helper(process)
        finally:
            process.kill()


def test_it_says_who_it_is_and_answers_with_what_is_there(s3server: S3Server, bucket: str, tmp_path: Path) -> None:
    client = s3server.client(s3server.user)
    for key in ("p/a", "p/sub/b", "p.txt"):
        client.put_object(Bucket=bucket, Key=key, Body=b"12345")
    with _helper(s3server) as helper:
        assert helper.hello["protocol"] == 1
        found = helper.ask(op="stat", uri=f"s3://{bucket}/p/a")
        assert (found["kind"], found["size"]) == ("file", 5)
        assert helper.ask(op="stat", uri=f"s3://{bucket}/p")["kind"] == "folder"
        assert helper.ask(op="stat", uri=f"s3://{bucket}/nothing")["kind"] == "none"
        assert helper.ask(op="stat", uri=f"s3://{bucket}")["kind"] == "folder"
        entries = helper.ask(op="list", uri=f"s3://{bucket}/p")["entries"]
        assert sorted(entry[0] for entry in entries) == ["a", "sub/"]
        copied = helper.ask(op="copy", source=f"s3://{bucket}/p", target=str(tmp_path / "p"), folder=True)
        assert (copied["objects"], copied["bytes"]) == (2, 10)
        assert (tmp_path / "p" / "sub" / "b").read_bytes() == b"12345"
        assert helper.end() == 0


def test_a_key_with_a_star_is_that_key(versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path) -> None:
    bucket = make_bucket(versitygw)
    for key in ("H*1.fa", "H01.fa", "p*/x", "p1/x"):
        versitygw.client(versitygw.user).put_object(Bucket=bucket, Key=key, Body=key.encode())
    with _helper(versitygw, SEQFERRY_STATE_DIR=str(tmp_path / "state")) as helper:
        one = helper.ask(op="copy", source=f"s3://{bucket}/H*1.fa", target=str(tmp_path / "one.fa"))
        assert (one["objects"], (tmp_path / "one.fa").read_bytes()) == (1, b"H*1.fa")
        helper.ask(op="copy", source=f"s3://{bucket}/p*", target=str(tmp_path / "p"), folder=True)

    assert [path.read_bytes() for path in (tmp_path / "p").rglob("*") if path.is_file()] == [b"p*/x"]


def test_an_object_that_is_known_is_not_looked_up_and_read_anew_once_it_has_changed(
    proxy: Proxy, bucket: str, tmp_path: Path
) -> None:
    client = proxy.server.client(proxy.server.user)
    etag = client.put_object(Bucket=bucket, Key="x", Body=b"12345")["ETag"].strip('"')
    proxy.clear_log()
    with _helper(proxy.server) as helper:

        def fetch(name: str) -> dict[str, Any]:
            target = str(tmp_path / name)
            return helper.ask(op="copy", source=f"s3://{bucket}/x", target=target, size=5, etag=etag)

        assert fetch("first")["objects"] == 1
        assert proxy.log("HeadObject") == []
        client.put_object(Bucket=bucket, Key="x", Body=b"another one")
        assert fetch("second")["objects"] == 1
        client.delete_object(Bucket=bucket, Key="x")
        assert fetch("third")["error"]["kind"] == "missing"

    assert (tmp_path / "first").read_bytes() == b"12345"
    assert (tmp_path / "second").read_bytes() == b"another one"
    assert not (tmp_path / "third").exists()


def test_errors_are_of_the_kind_that_nextflow_tells_apart(s3server: S3Server, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"new")
    s3server.client(s3server.user).put_object(Bucket=bucket, Key="x", Body=b"old")
    missing = f"s3://{bucket}/nothing"
    with _helper(s3server) as helper:

        def kind(**request: Any) -> str:
            return helper.ask(**request)["error"]["kind"]

        assert kind(op="copy", source=missing, target=str(tmp_path / "y")) == "missing"
        assert kind(op="copy", source=missing, target=str(tmp_path / "y"), folder=True) == "missing"
        assert kind(op="copy", source=str(tmp_path / "x"), target=f"s3://{bucket}/x", replace=False) == "exists"
        assert kind(op="stat", uri="s3://no-such-bucket-anywhere") == "missing"
        assert kind(op="stat") == "usage"
        assert kind(op="format", uri="s3://b/k") == "usage"
        helper.requests.write("nonsense\n")
        assert helper.ask(op="stat", uri=f"s3://{bucket}/x")["error"]["kind"] == "usage"
    assert s3server.client().get_object(Bucket=bucket, Key="x")["Body"].read() == b"old"
    assert not (tmp_path / "y").exists()


def test_what_is_under_way_is_given_up_when_its_input_ends(proxy: Proxy, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(20 * MIB))
    rule = proxy.rule("UploadPart", hold(), part=2)
    with _helper(proxy.server) as helper:
        helper.send(id=1, op="copy", source=str(tmp_path / "big"), target=f"s3://{bucket}/big")
        proxy.wait_held(rule)
        helper.requests.close()
        proxy.wait_succeeded("AbortMultipartUpload")
        proxy.remove_rule(rule)
        answer = helper.read()
        assert helper.process.wait(60) == 0

    assert answer["error"]["kind"] == "stopped"
    assert open_uploads(proxy.server, bucket) == []
    assert proxy.server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_manyrequests_under_way_are_all_answered(
    seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    """More than are carried out at once, and more than may wait."""
    bucket = make_bucket(seaweedfs)
    seaweedfs.client(seaweedfs.user).put_object(Bucket=bucket, Key="x", Body=b"12345")
    count = 400
    with _helper(seaweedfs) as helper:
        for number in range(count):
            helper.send(id=number, op="copy", source=f"s3://{bucket}/x", target=str(tmp_path / f"x{number}"))
        answers = [helper.read() for _ in range(count)]

    assert sorted(answer["id"] for answer in answers) == list(range(count))
    assert [answer for answer in answers if "error" in answer] == []
    assert all((tmp_path / f"x{number}").read_bytes() == b"12345" for number in range(count))


def test_folders_are_recorded_where_a_state_folder_is_named(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    for name in ("a", "b"):
        versitygw.client(versitygw.user).put_object(Bucket=bucket, Key=f"p/{name}", Body=b"12345")
    state = {"SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    with _helper(versitygw, **state) as helper:
        done = helper.ask(op="copy", source=f"s3://{bucket}/p", target=str(tmp_path / "p"), folder=True)
        assert done == {"id": 1, "end": True}
        gone = helper.ask(op="copy", source=f"s3://{bucket}/nothing", target=str(tmp_path / "q"), folder=True)
        assert gone["error"]["kind"] == "missing"

    assert (tmp_path / "p" / "b").read_bytes() == b"12345"
    shown = subprocess.run(
        [seqferry(), "status"], env={**os.environ, **state}, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert f"s3://{bucket}/p/" in shown
