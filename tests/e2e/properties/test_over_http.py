"""What objects carry, as clients of the HTTP API ask for it: done by the worker of ``serve``, seen at the storage."""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from served import EndpointMoverFactory, served

from compat.fleet import Endpoint
from support.headers import recording
from support.mover import MIB, Mover
from support.servers import S3Server

KMS_KEY = "lab"
SMALL_PARTS = {"part_size": 5 * MIB, "copy_threshold": 5 * MIB}

EndpointBucketFactory = Callable[[Endpoint], str]
BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


def _fill(client: Any, bucket: str, rng: random.Random, **put: Any) -> dict[str, bytes]:
    """One object that is copied whole, and one in parts."""
    contents = {"small": b"ACGT", "big": rng.randbytes(6 * MIB)}
    for name, content in contents.items():
        client.put_object(Bucket=bucket, Key=f"run/{name}", Body=content, **put)
    return contents


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"sse": "AES256"}, ("AES256", None)),
        ({"sse": "aws:kms", "sse_kms_key_id": KMS_KEY}, ("aws:kms", KMS_KEY)),
    ],
)
def test_encryption_is_as_asked(
    kms_server: Endpoint,
    new_bucket: EndpointBucketFactory,
    mover_at: EndpointMoverFactory,
    rng: random.Random,
    options: dict[str, str],
    wanted: tuple[str, str | None],
) -> None:
    source, target, client = new_bucket(kms_server), new_bucket(kms_server), kms_server.client()
    contents = _fill(client, source, rng)
    with served(mover_at(kms_server)) as server:
        ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", **SMALL_PARTS, **options)

        assert (ended["state"], ended["totals"]["done"]) == ("done", 2), server.failures(ended["id"])
    for name, content in contents.items():
        answer = client.get_object(Bucket=target, Key=f"in/{name}")
        assert answer["Body"].read() == content
        key = answer.get("SSEKMSKeyId")
        assert (answer["ServerSideEncryption"], key and key.rsplit(":", 1)[-1]) == wanted


def test_encryption_that_is_dropped_in_silence_fails_each_object(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    _fill(versitygw.client(), source, rng)
    with served(make_mover(versitygw)) as server:
        ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", sse="AES256", **SMALL_PARTS)

        assert (ended["state"], ended["totals"]["failed"]) == ("done_with_failures", 2)
        assert "NotEncrypted" in server.failures(ended["id"])
    assert "Contents" not in versitygw.client().list_objects_v2(Bucket=target)


def test_a_customers_key_of_the_server_encrypts_and_reads(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, middle, target = (make_bucket(seaweedfs) for _ in range(3))
    client, mover, key = seaweedfs.client(), make_mover(seaweedfs), rng.randbytes(32)
    contents = _fill(client, source, rng)
    mover.env["SEQFERRY_SSE_C_LAB"] = base64.b64encode(key).decode()
    with served(mover) as server:
        up = server.carry(
            f"s3://{source}/run/", f"s3://{middle}/in/", sse_c_key="env:SEQFERRY_SSE_C_LAB", **SMALL_PARTS
        )
        assert (up["state"], up["totals"]["done"]) == ("done", 2), server.failures(up["id"])
        back = server.carry(
            f"s3://{middle}/in/", f"s3://{target}/out/", sse_c_copy_source_key="env:SEQFERRY_SSE_C_LAB", **SMALL_PARTS
        )
        assert (back["state"], back["totals"]["done"]) == ("done", 2), server.failures(back["id"])
    for name, content in contents.items():
        with pytest.raises(ClientError):
            client.get_object(Bucket=middle, Key=f"in/{name}")
        options = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
        assert client.get_object(Bucket=middle, Key=f"in/{name}", **options)["Body"].read() == content
        assert client.get_object(Bucket=target, Key=f"out/{name}")["Body"].read() == content


def test_a_client_names_no_file_and_no_other_variable_as_a_key(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    bucket = make_bucket(seaweedfs)
    names = ("env:HOME", "env:AWS_SECRET_ACCESS_KEY", "fileb:///etc/passwd", "/etc/passwd")
    with served(make_mover(seaweedfs)) as server:
        for name, route in itertools.product(names, ("transfers", "previews", "moves")):
            body = {"source": f"s3://{bucket}/run/", "target": f"s3://{bucket}/in/", "sse_c_key": name}
            answer = server.http.post(f"/api/v1/{route}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), (name, route, answer.text)
            assert "SEQFERRY_SSE_C_" in answer.json()["detail"], (name, route)


def test_an_acl_is_set(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory, rng: random.Random
) -> None:
    source, target, client = new_bucket(moto), new_bucket(moto), moto.client()
    _fill(client, source, rng)
    with served(mover_at(moto)) as server:
        ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", acl="public-read", **SMALL_PARTS)

        assert (ended["state"], ended["totals"]["done"]) == ("done", 2), server.failures(ended["id"])
        answer = server.http.post(
            "/api/v1/transfers", json={"source": f"s3://{source}/", "target": f"s3://{target}/", "acl": "everyone"}
        )
        assert answer.status_code == 400, answer.text
    for name in ("small", "big"):
        grants = client.get_object_acl(Bucket=target, Key=f"in/{name}")["Grants"]
        assert any(grant["Grantee"].get("URI", "").endswith("AllUsers") for grant in grants), name


def test_grants_and_the_payer_are_in_the_requests(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    _fill(seaweedfs.client(), source, rng)
    mover = make_mover(seaweedfs)
    with recording(seaweedfs.endpoint_url) as recorder:
        mover.env["AWS_ENDPOINT_URL"] = recorder.endpoint_url
        with served(mover) as server:
            given = {"grants": ["full=id=79a5"], "request_payer": "requester"}
            ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", **given, **SMALL_PARTS)
            assert (ended["state"], ended["totals"]["done"]) == ("done", 2), server.failures(ended["id"])
        creates = [*recorder.of("PUT", "/in/small"), *recorder.of("POST", "/in/big?uploads")]
        assert len(creates) >= 2
        assert {headers["x-amz-grant-full-control"] for headers in creates} == {'id="79a5"'}
        of_objects = [headers for _, path, headers in recorder.requests if "/run/" in path or "/in/" in path]
        assert {headers.get("x-amz-request-payer") for headers in of_objects} == {"requester"}


@pytest.mark.every_server
def test_metadata_attributes_and_tags_are_as_asked(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, target, client = make_bucket(s3server), make_bucket(s3server), s3server.client()
    _fill(client, source, rng, ContentType="text/x-run", Metadata={"lab": "7"}, Tagging="kept=yes")
    asked = {
        "content_type": "application/fastq",
        "cache_control": "max-age=1",
        "metadata": {"sample": "9"},
        "metadata_directive": "COPY",
        "tags": {"lane": "3"},
    }
    with served(make_mover(s3server)) as server:
        ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", **SMALL_PARTS, **asked)

        assert (ended["state"], ended["totals"]["done"]) == ("done", 2), server.failures(ended["id"])
    for name in ("small", "big"):
        head = client.head_object(Bucket=target, Key=f"in/{name}")
        assert (head["ContentType"], head["CacheControl"]) == ("application/fastq", "max-age=1")
        assert head["Metadata"] == {"lab": "7", "sample": "9"}
        tags = client.get_object_tagging(Bucket=target, Key=f"in/{name}")["TagSet"]
        assert tags == [{"Key": "lane", "Value": "3"}]


# Each algorithm is seen at the storage in ``test_checksums.py``.
def test_the_checksum_is_the_one_that_was_asked_for(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, target, client = make_bucket(versitygw), make_bucket(versitygw), versitygw.client()
    contents = _fill(client, source, rng, ChecksumAlgorithm="CRC32")
    with served(make_mover(versitygw)) as server:
        for algorithm in ("CRC32C", "SHA256"):
            given = {"checksum_algorithm": algorithm, **SMALL_PARTS}
            ended = server.carry(f"s3://{source}/run/", f"s3://{target}/{algorithm}/", **given)
            assert (ended["state"], ended["totals"]["done"]) == ("done", 2), server.failures(ended["id"])
            for name in contents:
                head = client.head_object(Bucket=target, Key=f"{algorithm}/{name}", ChecksumMode="ENABLED")
                assert f"Checksum{algorithm}" in head, (name, head)


@pytest.mark.every_server
def test_whole_histories_are_copied_in_their_order(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    source, target = make_bucket(s3server, versioned=True), make_bucket(s3server, versioned=True)
    client = s3server.client()
    for body in (b"first", b"second", b"third"):
        client.put_object(Bucket=source, Key="run/a", Body=body)
    with served(make_mover(s3server)) as server:
        ended = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", all_versions=True)
        assert (ended["operation"], ended["state"], ended["totals"]["done"]) == ("history", "done", 3)
        rows = server.http.get(f"/api/v1/transfers/{ended['id']}/objects").json()["objects"]
        assert len({row["version_id"] for row in rows}) == len({row["target_version_id"] for row in rows}) == 3
    listed = client.list_object_versions(Bucket=target, Prefix="in/")["Versions"]
    bodies = [client.get_object(Bucket=target, Key="in/a", VersionId=one["VersionId"])["Body"].read() for one in listed]
    assert bodies == [b"third", b"second", b"first"]


def test_a_version_of_an_object_and_the_number_of_tries_are_on_record(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    source, target, client = make_bucket(s3server, versioned=True), make_bucket(s3server), s3server.client()
    first = client.put_object(Bucket=source, Key="run/a", Body=b"first")["VersionId"]
    client.put_object(Bucket=source, Key="run/a", Body=b"second")
    with served(make_mover(s3server)) as server:
        one = server.carry(f"s3://{source}/run/a", f"s3://{target}/in/a", version_id=first, attempts=3)
        assert (one["state"], one["totals"]["done"]) == ("done", 1), server.failures(one["id"])
        rows = [{"key": "a", "version_id": first, "target_key": "a.1"}, {"key": "missing", "version_id": first}]
        several = server.carry(f"s3://{source}/run/", f"s3://{target}/in/", objects=rows)
        assert several["state"] == "done_with_failures", server.failures(several["id"])
        assert (several["totals"]["done"], several["totals"]["failed"]) == (1, 1), server.failures(several["id"])
        [found] = server.http.get(f"/api/v1/transfers/{one['id']}/objects").json()["objects"]
    assert found["version_id"] == first
    for key in ("in/a", "in/a.1"):
        assert client.get_object(Bucket=target, Key=key)["Body"].read() == b"first"
