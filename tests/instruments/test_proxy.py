"""The fault proxy between boto3 and real servers."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError

from support import proxy as faults
from support.proxy import Proxy
from support.rewriting import rewriting
from support.servers import S3Server

pytestmark = pytest.mark.every_server

MIB = 1024 * 1024


@pytest.fixture
def bucket(s3server: S3Server, make_bucket: Callable[[S3Server], str]) -> str:
    return make_bucket(s3server)


@pytest.fixture
def client(proxy: Proxy) -> Any:
    """Through the proxy, and without retries of its own."""
    return proxy.server.client(proxy.server.user, retries={"total_max_attempts": 1})


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


def test_bytes_pass_unchanged_and_are_counted(proxy: Proxy, client: Any, bucket: str, rng: Any) -> None:
    content = rng.randbytes(3 * MIB + 17)
    key = "a b/ü+&//'\"(1).gz"

    client.put_object(Bucket=bucket, Key=key, Body=content, Metadata={"Mixed": "Case é".encode().hex()})

    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == content
    proxy.wait_idle()
    [put] = proxy.log("PutObject")
    assert (put.bucket, put.key, put.status, put.complete) == (bucket, key, 200, True)
    assert put.access_key == "mover"
    assert put.request_bytes == len(content)
    [get] = proxy.log("GetObject")
    assert get.succeeded
    assert get.reply_bytes == len(content)


def test_a_refusal_that_comes_before_the_body_was_read_passes_a_proxy_that_rewrites(
    s3server: S3Server, bucket: str
) -> None:
    s3server.client(s3server.user).put_object(Bucket=bucket, Key="k", Body=b"there")
    with rewriting(s3server, lambda reply: None) as through:
        client = through.server.client(s3server.user, retries={"total_max_attempts": 1})
        with pytest.raises(ClientError) as refused:
            client.put_object(Bucket=bucket, Key="k", Body=bytes(6 * MIB), IfNoneMatch="*")

    assert code(refused) == "PreconditionFailed"


def test_a_multipart_copy_is_on_record_part_by_part(proxy: Proxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="src", Body=b"x" * (11 * MIB))
    upload = client.create_multipart_upload(Bucket=bucket, Key="dst", ChecksumAlgorithm="CRC64NVME")["UploadId"]

    def copy(part: int, first: int, last: int) -> dict[str, Any]:
        source = {"Bucket": bucket, "Key": "src"}
        result = client.upload_part_copy(
            Bucket=bucket,
            Key="dst",
            UploadId=upload,
            PartNumber=part,
            CopySource=source,
            CopySourceRange=f"bytes={first}-{last}",
        )["CopyPartResult"]
        return {"PartNumber": part, **{k: v for k, v in result.items() if k in ("ETag", "ChecksumCRC64NVME")}}

    parts = [copy(1, 0, 6 * MIB - 1), copy(2, 6 * MIB, 11 * MIB - 1)]
    client.complete_multipart_upload(Bucket=bucket, Key="dst", UploadId=upload, MultipartUpload={"Parts": parts})

    proxy.wait_idle()
    [create] = proxy.log("CreateMultipartUpload")
    assert create.upload_id == upload
    copies = proxy.log("UploadPartCopy")
    assert [record.part_number for record in copies] == [1, 2]
    assert copies[0].range == f"bytes=0-{6 * MIB - 1}"
    assert {record.copy_source for record in copies} == {f"{bucket}/src"}
    assert {record.upload_id for record in copies} == {upload}
    assert [record.took_effect for record in proxy.log("CompleteMultipartUpload")] == [True]


def test_an_error_is_answered_in_place_of_the_server(proxy: Proxy, client: Any, bucket: str) -> None:
    rule = proxy.rule("PutObject", faults.slow_down(retry_after=1), key="slow/*", after=1, times=1)

    client.put_object(Bucket=bucket, Key="slow/1", Body=b"")
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket=bucket, Key="slow/2", Body=b"")
    client.put_object(Bucket=bucket, Key="slow/2", Body=b"")

    assert code(raised) == "SlowDown"
    assert raised.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
    assert proxy.fired(rule) == 1
    refused = next(record for record in proxy.log("PutObject") if record.rule == rule)
    assert (refused.status, refused.upstream_status, refused.error_code) == (503, None, "SlowDown")


def test_a_head_request_gets_the_status_alone(proxy: Proxy, client: Any, bucket: str) -> None:
    proxy.rule("HeadObject", faults.access_denied())

    with pytest.raises(ClientError) as raised:
        client.head_object(Bucket=bucket, Key="k")

    assert code(raised) == "403"


def test_a_200_can_hold_an_error(proxy: Proxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="src", Body=b"x")
    proxy.rule("CopyObject", faults.error_in_200("InternalError", white_space=100))

    with pytest.raises(ClientError) as raised:
        client.copy_object(Bucket=bucket, Key="dst", CopySource={"Bucket": bucket, "Key": "src"})

    assert code(raised) == "InternalError"
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix="dst")


def test_a_reset_keeps_the_server_from_hearing(proxy: Proxy, client: Any, bucket: str) -> None:
    proxy.rule("PutObject", faults.reset(), times=1)

    with pytest.raises(BotoCoreError):
        client.put_object(Bucket=bucket, Key="k", Body=b"x")

    assert "Contents" not in client.list_objects_v2(Bucket=bucket)


def test_a_lost_reply_leaves_the_effect(proxy: Proxy, client: Any, bucket: str) -> None:
    proxy.rule("PutObject", faults.lose_reply(), times=1)

    with pytest.raises(ConnectionClosedError):
        client.put_object(Bucket=bucket, Key="k", Body=b"x")

    assert [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]
    [lost] = proxy.log("PutObject")
    assert (lost.status, lost.upstream_status, lost.complete) == (None, 200, False)


def test_a_reply_breaks_off_after_so_many_bytes(proxy: Proxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="k", Body=b"x" * MIB)
    proxy.rule("GetObject", faults.truncate(300_000), times=1)

    body = client.get_object(Bucket=bucket, Key="k")["Body"]
    assert body.read(290_000) == b"x" * 290_000
    with pytest.raises(BotoCoreError):
        body.read()

    proxy.wait_idle()
    [cut] = proxy.log("GetObject")
    assert (cut.reply_bytes, cut.complete) == (300_000, False)
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x" * MIB


def test_a_byte_is_flipped(proxy: Proxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="k", Body=b"x" * 200_000)
    proxy.rule("GetObject", faults.corrupt(150_000))

    received = client.get_object(Bucket=bucket, Key="k")["Body"]

    content = received._raw_stream.read()
    assert len(content) == 200_000
    assert [at for at, byte in enumerate(content) if byte != ord("x")] == [150_000]


def test_a_byte_of_a_request_is_flipped(proxy: Proxy, s3server: S3Server, bucket: str) -> None:
    signer = proxy.server.client(signature_version="s3v4", request_checksum_calculation="when_required")
    rule = proxy.rule("PutObject", faults.corrupt_request(1_000_003), every=2)
    # Such an address promises nothing of the bytes: the server takes what comes.
    for key, content in (("short", b"x" * 1000), ("fine", b"x"), ("long", b"x" * 2 * MIB)):
        url = signer.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key})
        with urllib.request.urlopen(urllib.request.Request(url, content, method="PUT")) as answer:
            assert answer.status == 200

    def spoiled(key: str) -> list[int]:
        content = s3server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return [at for at, byte in enumerate(content) if byte != ord("x")]

    assert [spoiled(key) for key in ("short", "fine", "long")] == [[3], [], [1_000_003]]
    proxy.wait_idle()
    assert [record.spoiled_at for record in proxy.log("PutObject")] == [3, None, 1_000_003]
    assert proxy.fired(rule) == 2


@pytest.mark.parametrize("side", ["request", "reply"])
def test_held_requests_wait_until_released(proxy: Proxy, client: Any, bucket: str, side: str) -> None:
    rule = proxy.rule("PutObject", faults.hold(side), key="held/*")

    with ThreadPoolExecutor(3) as pool:
        puts = [pool.submit(client.put_object, Bucket=bucket, Key=f"held/{i}", Body=b"x") for i in range(3)]
        proxy.wait_held(rule, 3)
        there = proxy.server.client().list_objects_v2(Bucket=bucket).get("KeyCount")
        assert not any(put.done() for put in puts)
        assert {record.held_by for record in proxy.in_flight() if record.operation == "PutObject"} == {rule}

        assert proxy.release(rule, 1) == 1
        proxy.wait_succeeded("PutObject", 1)
        proxy.remove_rule(rule)
        for put in puts:
            put.result(30)

    assert there == (0 if side == "request" else 3)


def test_a_held_request_whose_client_left_is_never_forwarded(proxy: Proxy, s3server: S3Server, bucket: str) -> None:
    rule = proxy.rule("PutObject", faults.hold())
    hasty = proxy.server.client(read_timeout=1, retries={"total_max_attempts": 1})

    with pytest.raises(BotoCoreError):
        hasty.put_object(Bucket=bucket, Key="k", Body=b"x")
    proxy.wait_idle()
    proxy.remove_rule(rule)

    assert s3server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_misspelt_rule_is_refused(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="no operation is called UploadPartCpoy"):
        proxy.rule("UploadPartCpoy", faults.reset())
    with pytest.raises(ValueError, match="unknown variant"):
        proxy.rule("UploadPartCopy", {"do": "explode"})


def test_waiting_has_a_deadline(proxy: Proxy) -> None:
    with pytest.raises(TimeoutError, match="CopyObject"):
        proxy.wait_requested("CopyObject", deadline=0.1)
