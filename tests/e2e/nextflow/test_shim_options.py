"""Options of ``aws s3`` and s5cmd that the engine carries out: the headers of the requests say it."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.headers import recording
from support.processes import seqferry
from support.servers import S3Server

_KMS = {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "lab"}
_AES = {"x-amz-server-side-encryption": "AES256"}
_PAYER = {"x-amz-request-payer": "requester"}


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("aws s3 cp --sse FILE DST", _AES),
        ("aws s3 cp --sse AES256 FILE DST", _AES),
        ("aws s3 cp FILE DST --sse", _AES),
        ("aws s3 cp --sse aws:kms --sse-kms-key-id lab FILE DST", _KMS),
        ("aws s3 cp --acl bucket-owner-full-control FILE DST", {"x-amz-acl": "bucket-owner-full-control"}),
        (
            "aws s3 cp --grants read=id=79a5 full=id=80b6 FILE DST",
            {"x-amz-grant-read": 'id="79a5"', "x-amz-grant-full-control": 'id="80b6"'},
        ),
        ("aws s3 cp --request-payer FILE DST", _PAYER),
        ("aws s3 cp --request-payer requester FILE DST", _PAYER),
        ("aws s3 cp --storage-class=STANDARD_IA FILE DST", {"x-amz-storage-class": "STANDARD_IA"}),
        (
            "aws s3 cp --content-type text/x --cache-control no-cache --metadata a=b,c=d FILE DST",
            {"content-type": "text/x", "cache-control": "no-cache", "x-amz-meta-a": "b", "x-amz-meta-c": "d"},
        ),
        ("aws s3 cp --tags run 42 --checksum-mode ENABLED --output json FILE DST", {"x-amz-tagging": "run=42"}),
        ("aws s3 cp --recursive --sse --exclude * --include FILE . DST/", _AES),
        ("s5cmd cp --sse aws:kms --sse-kms-key-id lab FILE DST", _KMS),
        ("s5cmd cp --acl public-read FILE DST", {"x-amz-acl": "public-read"}),
        ("s5cmd --request-payer requester cp FILE DST", _PAYER),
        ("s5cmd cp --content-type text/x --metadata a=b FILE DST", {"content-type": "text/x", "x-amz-meta-a": "b"}),
        # The command itself takes what these tools let people leave out.
        ("cp --sse FILE DST", _AES),
        ("s3 cp FILE DST --request-payer", _PAYER),
    ],
)
def test_an_upload_says_what_was_asked_for(
    line: str, headers: dict[str, str], versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / "file").write_bytes(b"content")
    with recording(versitygw.endpoint_url) as recorder:
        words = [word.replace("FILE", "file").replace("DST", f"s3://{bucket}/up") for word in line.split()]
        done = _run(versitygw, recorder.endpoint_url, tmp_path, *words)

    sent = recorder.of("PUT", "up")
    assert sent, done.stderr
    assert headers.items() <= sent[0].items(), done.stderr


def test_an_upload_that_must_not_overwrite_leaves_what_is_there(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    client = versitygw.client(versitygw.user)
    client.put_object(Bucket=bucket, Key="there", Body=b"old")
    (tmp_path / "file").write_bytes(b"new")

    for key in ("there", "new"):
        words = ("aws", "s3", "cp", "--no-overwrite", "file", f"s3://{bucket}/{key}")
        done = _run(versitygw, versitygw.endpoint_url, tmp_path, *words)
        assert done.returncode == 0, done.stderr
        assert ("upload: " in done.stdout) == (key == "new")

    bodies = [client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in ("there", "new")]
    assert bodies == [b"old", b"new"]


@pytest.mark.parametrize(
    "line",
    [
        "aws s3 cp --request-payer SRC out",
        "aws s3 ls --request-payer requester SRC",
        "s5cmd --request-payer requester cp SRC out",
        "s5cmd --request-payer requester ls SRC",
        "ls --request-payer SRC",
        "du --request-payer requester SRC",
    ],
)
def test_the_requester_pays_for_reads(
    line: str, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="down", Body=b"content")
    with recording(versitygw.endpoint_url) as recorder:
        words = [word.replace("SRC", f"s3://{bucket}/down") for word in line.split()]
        done = _run(versitygw, recorder.endpoint_url, tmp_path, *words)

    assert done.returncode == 0, done.stderr
    assert all(_PAYER.items() <= found.items() for found in recorder.of("GET", bucket))
    assert recorder.of("GET", bucket)


def test_a_customers_key_comes_from_its_file_alone(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket, key = make_bucket(versitygw), b"0123456789abcdef0123456789abcdef"
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "key").write_bytes(key)
    target = f"s3://{bucket}/up"
    with recording(versitygw.endpoint_url) as recorder:
        options = ("--sse-c", "AES256", "--sse-c-key")
        named = _run(
            versitygw, recorder.endpoint_url, tmp_path, "aws", "s3", "cp", *options, key.decode(), "file", target
        )
        assert recorder.requests == []
        _run(versitygw, recorder.endpoint_url, tmp_path, "aws", "s3", "cp", *options, "fileb://key", "file", target)

    assert named.returncode == 252
    assert key.decode() not in named.stderr
    assert "write fileb://FILE" in named.stderr
    # A key is not sent in the clear, here as elsewhere.
    sent = recorder.of("PUT", "up")
    encoded = base64.b64encode(key).decode()
    assert all(found["x-amz-server-side-encryption-customer-key"] == encoded for found in sent)


def test_a_value_that_the_engine_does_not_know_is_refused_before_a_request(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    target = f"s3://{make_bucket(versitygw)}/up"
    (tmp_path / "file").write_bytes(b"content")
    for words, named in (
        (["aws", "s3", "cp", "--acl", "everybody", "file", target], "--acl 'everybody'"),
        (["aws", "s3", "cp", "--sse-kms-key-id", "lab", "file", target], "--sse-kms-key-id"),
        (["s5cmd", "cp", "--sse=rot13", "file", target], "--sse 'rot13'"),
    ):
        done = _run(versitygw, versitygw.endpoint_url, tmp_path, *words)
        assert done.returncode in (1, 252)
        assert named in done.stderr
    listed = versitygw.client(versitygw.user).list_objects_v2(Bucket=target.split("/")[2])
    assert listed["KeyCount"] == 0


def _run(server: S3Server, endpoint_url: str, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), **server.environment(), "AWS_ENDPOINT_URL": endpoint_url}
    return subprocess.run(
        [seqferry(), *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
