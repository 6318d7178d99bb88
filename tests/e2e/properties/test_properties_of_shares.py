"""Encryption, storage classes and tags of what clients write to a share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.fleet import Endpoint
from support.gateways import WrittenShares, need_libnfs, written_share
from support.libnfs import Share
from support.mover import MIB
from support.processes import run, seqferry
from support.waiting import eventually


def _share(bucket: str, *lines: str, settle: int = 1) -> str:
    return written_share("runs", f"s3://{bucket}/runs/", f"settle = {settle}", *lines)


def _protected(key: str) -> tuple[str, ...]:
    return (
        'storage_class = { "*.bam" = "REDUCED_REDUNDANCY" }',
        'sse = "aws:kms"',
        f'sse_kms_key_id = "{key}"',
        'tags = { project = "run 42" }',
    )


EndpointBucketFactory = Callable[[Endpoint], str]


@pytest.fixture(autouse=True)
def _libnfs() -> None:
    need_libnfs()


@pytest.fixture
def serving(kms_server: Endpoint, tmp_path: Path) -> Iterator[Callable[[str], WrittenShares]]:
    """``serving(config)``: a gateway, always with the same cache and state."""
    made: list[WrittenShares] = []

    def serve(config: str) -> WrittenShares:
        server: Any = kms_server
        made.append(WrittenShares(tmp_path, server, config))
        return made[-1]

    yield serve
    for shares in made:
        shares.close()


def _facts(client: Any, bucket: str, key: str) -> dict[str, Any]:
    head = client.head_object(Bucket=bucket, Key=key)
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    return {
        "sse": head.get("ServerSideEncryption"),
        "key": head.get("SSEKMSKeyId", "").rsplit(":", 1)[-1],
        "class": head.get("StorageClass", "STANDARD"),
        "tags": {tag["Key"]: tag["Value"] for tag in tags},
    }


def test_files_of_a_share_are_protected_as_its_keys_say(
    kms_server: Endpoint,
    new_bucket: EndpointBucketFactory,
    serving: Callable[[str], WrittenShares],
    rng: random.Random,
) -> None:
    bucket, client = new_bucket(kms_server), kms_server.client()
    client.put_object(Bucket=bucket, Key="runs/old.txt", Body=b"old", Tagging="owner=lab")
    shares = serving(_share(bucket, *_protected("lab")))
    big = rng.randbytes(11 * MIB)
    for name, body in {"big.bam": big, "small.txt": b"ACGT"}.items():
        shares.write(f"runs/{name}", body)
    Share(shares.url("runs")).set_mode("old.txt", 0o600)  # a copy of the object onto itself
    shares.ask("flush", "--wait", "/runs")

    protected = {"sse": "aws:kms", "key": "lab"}
    facts = {name: _facts(client, bucket, f"runs/{name}") for name in ("big.bam", "small.txt", "old.txt")}
    assert facts == {
        "big.bam": {**protected, "class": "REDUCED_REDUNDANCY", "tags": {"project": "run 42"}},
        "small.txt": {**protected, "class": "STANDARD", "tags": {"project": "run 42"}},
        "old.txt": {**protected, "class": "STANDARD", "tags": {"owner": "lab"}},
    }
    assert client.get_object(Bucket=bucket, Key="runs/big.bam")["Body"].read() == big


def test_a_share_whose_key_cannot_be_used_is_refused_and_one_with_waiting_files_keeps_them(
    kms_server: Endpoint, new_bucket: EndpointBucketFactory, serving: Callable[[str], WrittenShares], tmp_path: Path
) -> None:
    bucket, client = new_bucket(kms_server), kms_server.client()
    wrong = _share(bucket, *_protected("nobody"))
    (tmp_path / "wrong.toml").write_text(wrong)
    environment = {
        **kms_server.environment(),
        "SEQFERRY_CONFIG": str(tmp_path / "wrong.toml"),
        "SEQFERRY_STATE_DIR": str(tmp_path / "refused"),
    }
    command = [seqferry(), "gateway", "serve", "--port", "0", "--cache", tmp_path / "refused-cache"]
    refused = run(command, environment=environment, expect=None)
    assert refused.returncode != 0
    assert "share runs: it cannot be written: CreateMultipartUpload" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "Contents" not in client.list_objects_v2(Bucket=bucket)

    shares = serving(_share(bucket, settle=3600))
    shares.write("runs/waits", b"ACGT")
    shares.close()
    shares = serving(wrong)
    eventually(lambda: shares.writing()["failing_files"] == 1, what="the refusal of the key", deadline=60)
    [failing] = shares.writing()["failing"]
    assert failing["path"] == "waits"
    assert shares.writing()["dirty_files"] == 1
    shares.close()
    shares = serving(_share(bucket, *_protected("lab")))
    shares.ask("flush", "--wait", "/runs")
    assert _facts(client, bucket, "runs/waits")["key"] == "lab"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('sse_kms_key_id = "lab"', "sse_kms_key_id names a key of KMS: give sse aws:kms or sse aws:kms:dsse with it."),
        ('acl = "everyone"', "acl 'everyone' is not known; choose one of private, "),
        ('acl = "private"\ngrants = ["read=id=1"]', "acl and grants cannot be combined; choose one."),
        ('grants = ["write=1"]', "grants 'write=1' is not a grant"),
        (
            "tags = { " + ", ".join(f't{number} = "x"' for number in range(11)) + " }",
            "tags: 11 tags, and S3 allows 10.",
        ),
    ],
)
def test_keys_that_s3_does_not_take_are_refused_in_one_line(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "gateway.toml").write_text(_share("bucket", line))
    environment = {"SEQFERRY_CONFIG": str(tmp_path / "gateway.toml"), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    command = [seqferry(), "gateway", "serve", "--port", "0", "--cache", tmp_path / "cache"]
    refused = run(command, environment=environment, expect=None)
    assert refused.returncode != 0
    assert f"[[share]] runs: {said}" in refused.stderr
    assert refused.stderr.count("\n") == 1
