"""Attributes, metadata and tags: carried, set beside the source's, or instead of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat.fleet import Endpoint
from support.headers import recording
from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server
from support.trees import settle

pytestmark = pytest.mark.every_server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


def _shown(client: Any, bucket: str, key: str) -> dict[str, Any]:
    head = client.head_object(Bucket=bucket, Key=key)
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    own = {
        name: value
        for name, value in head["Metadata"].items()
        if name not in ("mtime", "mode", "file-mtime", "file-permissions")
    }
    return {
        "type": head["ContentType"],
        "cache": head.get("CacheControl"),
        "metadata": own,
        "tags": {tag["Key"]: tag["Value"] for tag in tags},
    }


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {"type": "text/x-run", "cache": "no-cache", "metadata": {"lab": "7"}, "tags": {"kept": "yes"}}),
        (
            ("--content-type", "text/csv", "--tags", "a=1", "--tags", "b=2"),
            {"type": "text/csv", "cache": "no-cache", "metadata": {"lab": "7"}, "tags": {"a": "1", "b": "2"}},
        ),
        (
            ("--metadata", "sample=9,lane=3", "--metadata-directive", "COPY"),
            {
                "type": "text/x-run",
                "cache": "no-cache",
                "metadata": {"lab": "7", "sample": "9", "lane": "3"},
                "tags": {"kept": "yes"},
            },
        ),
        (
            ("--metadata", '{"sample": "9"}', "--cache-control", "max-age=1", "--content-type", "text/csv"),
            {"type": "text/csv", "cache": "max-age=1", "metadata": {"sample": "9"}, "tags": {"kept": "yes"}},
        ),
        (
            ("--copy-props", "none", "--content-type", "text/csv"),
            {"type": "text/csv", "cache": None, "metadata": {}, "tags": {}},
        ),
    ],
)
def test_small_and_large_copies_carry_what_was_asked(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    options: tuple[str, ...],
    wanted: dict[str, Any],
) -> None:
    source, target, client = make_bucket(s3server), make_bucket(s3server), s3server.client()
    for key, content in (("run/small", b"ACGT"), ("run/big", rng.randbytes(6 * MIB))):
        client.put_object(
            Bucket=source,
            Key=key,
            Body=content,
            ContentType="text/x-run",
            CacheControl="no-cache",
            Metadata={"lab": "7"},
            Tagging="kept=yes",
        )

    code, _, err = make_mover(s3server).copy(f"s3://{source}/run/", f"s3://{target}/in/", *SMALL_PARTS, *options)

    assert code == 0, err
    assert _shown(client, target, "in/small") == wanted
    assert _shown(client, target, "in/big") == wanted


def test_uploads_get_attributes_and_keep_what_files_carry(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, client = make_bucket(s3server), s3server.client()
    (tmp_path / "small").write_bytes(b"ACGT")
    (tmp_path / "big").write_bytes(rng.randbytes(6 * MIB))
    settle(tmp_path / "small", tmp_path / "big")
    options = ("--content-type", "application/fastq", "--metadata", "sample=9", "--tags", "lane=3")

    code, _, err = make_mover(s3server).copy(
        f"{tmp_path}/", f"s3://{bucket}/in/", *SMALL_PARTS, *options, "--exclude", "state*"
    )

    assert code == 0, err
    for key in ("in/small", "in/big"):
        shown = _shown(client, bucket, key)
        assert (shown["type"], shown["metadata"], shown["tags"]) == (
            "application/fastq",
            {"sample": "9"},
            {"lane": "3"},
        )
        assert "mtime" in client.head_object(Bucket=bucket, Key=key)["Metadata"]


def test_acl_grants_and_the_payer_are_in_the_requests(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: Callable[[Any], Mover], tmp_path: Path
) -> None:
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    seaweedfs.client().put_object(Bucket=source, Key="run/small", Body=b"a")
    seaweedfs.client().put_object(Bucket=source, Key="run/big", Body=b"b" * (6 * MIB))
    grant = "full=id=79a5"

    with recording(seaweedfs.endpoint_url) as recorder:
        mover = make_mover(seaweedfs)
        mover.env["AWS_ENDPOINT_URL"] = recorder.endpoint_url
        options = ("--grants", grant, "--grants", "read=uri=http://x/y", "--request-payer", "requester")
        code, _, err = mover.copy(f"s3://{source}/run/", f"s3://{target}/in/", *SMALL_PARTS, *options)
        assert code == 0, err
        creates = [*recorder.of("PUT", "/in/small"), *recorder.of("POST", "/in/big?uploads")]
        assert len(creates) >= 2
        for headers in creates:
            assert headers["x-amz-grant-full-control"] == 'id="79a5"'
            assert headers["x-amz-grant-read"] == 'uri="http://x/y"'
        of_objects = [headers for _, path, headers in recorder.requests if "/run/" in path or "/in/" in path]
        assert of_objects
        assert {headers.get("x-amz-request-payer") for headers in of_objects} == {"requester"}


def test_an_acl_is_set(
    moto: Endpoint,
    new_bucket: Callable[[Endpoint], str],
    mover_at: Callable[[Any], Mover],
) -> None:
    source, target, client = new_bucket(moto), new_bucket(moto), moto.client()
    client.put_object(Bucket=source, Key="run/a", Body=b"a")

    code, _, err = mover_at(moto).copy(f"s3://{source}/run/", f"s3://{target}/in/", "--acl", "public-read")

    assert code == 0, err
    grants = client.get_object_acl(Bucket=target, Key="in/a")["Grants"]
    assert any(grant["Grantee"].get("URI", "").endswith("AllUsers") for grant in grants)
