"""The S3 simulator under real clients: what they copy, get, put and list is what they meant."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from support.run import MissingToolError, find_tool
from support.sim import Simulator, refused

MIB = 1024 * 1024
SOURCE = "src=keys=run42/sample_{i:04}_R{1,2}.fastq.gz;count=6;size=20 MiB"
FIRST = "run42/sample_0000_R1.fastq.gz"


@pytest.fixture
def simulator(make_simulator: Callable[..., Simulator]) -> Simulator:
    return make_simulator("--instant", "--bucket", SOURCE, "--bucket", "dst")


def tool(name: str, variable: str) -> Path:
    try:
        return find_tool(name, variable=variable, hint="run `make tools`")
    except MissingToolError as missing:
        pytest.skip(str(missing))


def run(command: list[Any], simulator: Simulator, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **simulator.environment(), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- boto3 ---


def test_boto3_copies_in_parts_what_it_can_read_and_put_again(simulator: Simulator, tmp_path: Path) -> None:
    client = simulator.client()
    parts = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)

    client.copy({"Bucket": "src", "Key": FIRST}, "dst", "copied", Config=parts)
    client.copy_object(Bucket="dst", Key="at-once", CopySource={"Bucket": "src", "Key": FIRST})
    client.download_file("src", FIRST, str(tmp_path / "file"), Config=parts)
    client.upload_file(str(tmp_path / "file"), "dst", "uploaded", Config=parts)

    content = client.get_object(Bucket="src", Key=FIRST)["Body"].read()
    assert len(content) == 20 * MIB
    assert len(gzip.compress(content[: 4 * MIB], 1)) > 4 * MIB * 0.99, "content must not compress"
    for key in ("copied", "at-once", "uploaded"):
        assert client.get_object(Bucket="dst", Key=key)["Body"].read() == content
        assert simulator.check(f"src/{FIRST}", f"dst/{key}")["same"] == 1
    assert simulator.stats()["kept_bytes"] == 0, "what was downloaded is known again when it comes back"


def test_content_that_clients_make_comes_back(simulator: Simulator, rng: random.Random) -> None:
    client = simulator.client()
    for size in (0, 1, 16, 17, 70_000, 3 * MIB):
        body = rng.randbytes(size)

        put = client.put_object(Bucket="dst", Key="k", Body=body, Metadata={"a": "b"}, ContentType="x/y")

        assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
        got = client.get_object(Bucket="dst", Key="k")
        assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (body, {"a": "b"}, "x/y")
        if size > 100:
            ranged = client.get_object(Bucket="dst", Key="k", Range="bytes=10-99")
            assert (ranged["Body"].read(), ranged["ContentRange"]) == (body[10:100], f"bytes 10-99/{size}")
    client.delete_object(Bucket="dst", Key="k")
    assert simulator.stats()["kept_bytes"] == 0


def test_checksums_are_true_and_verified(simulator: Simulator) -> None:
    client = simulator.client()
    # Clients verify what GET says of its body.
    assert "ChecksumCRC64NVME" in client.get_object(Bucket="src", Key=FIRST, ChecksumMode="ENABLED")

    # The published check values of "123456789".
    published = {
        "CRC32": "y/Q5Jg==",
        "CRC32C": "4waSgw==",
        "CRC64NVME": "rosUhgp5mIg=",
        "SHA256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
    }
    for algorithm, value in published.items():
        client.put_object(Bucket="dst", Key=algorithm, Body=b"123456789", **{f"Checksum{algorithm}": value})
        head = client.head_object(Bucket="dst", Key=algorithm, ChecksumMode="ENABLED")
        assert (head[f"Checksum{algorithm}"], head["ChecksumType"]) == (value, "FULL_OBJECT")
        with pytest.raises(ClientError) as raised:
            client.put_object(Bucket="dst", Key="x", Body=b"12345678", **{f"Checksum{algorithm}": value})
        assert code(raised) == "BadDigest"
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket="dst", Key="x", Body=b"1", ChecksumCRC32="AAAAAA==")
    assert code(raised) == "BadDigest"
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket="dst", Key="x", Body=b"1", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
    assert code(raised) == "BadDigest"


def test_bodies_in_signed_chunks_with_trailers_are_decoded(simulator: Simulator) -> None:
    body = b"Wikipedia in\r\n\r\nchunks."
    chunks = [body[:4], body[4:9], body[9:]]
    client = simulator.client()
    client.put_object(Bucket="dst", Key="plain", Body=body, ChecksumAlgorithm="CRC32")
    crc = client.head_object(Bucket="dst", Key="plain", ChecksumMode="ENABLED")["ChecksumCRC32"]
    signature = ";chunk-signature=" + "0" * 64

    def send(checksum: str) -> tuple[int, bytes]:
        framed = b"".join(f"{len(c):x}{signature}\r\n".encode() + c + b"\r\n" for c in chunks)
        framed += f"0{signature}\r\nx-amz-checksum-crc32:{checksum}\r\nx-amz-trailer-signature:0\r\n\r\n".encode()
        head = (
            "PUT /dst/chunked HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\r\nContent-Encoding: aws-chunked,gzip\r\n"
            f"x-amz-trailer: x-amz-checksum-crc32\r\nx-amz-decoded-content-length: {len(body)}\r\n"
            f"Content-Length: {len(framed)}\r\n\r\n"
        )
        host, port = simulator.endpoint_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            # In small pieces: a line may be cut anywhere.
            for at in range(0, len(head.encode() + framed), 7):
                connection.sendall((head.encode() + framed)[at : at + 7])
            answer = b""
            while data := connection.recv(65536):
                answer += data
        return int(answer.split(b" ")[1]), answer

    assert send(crc)[0] == 200
    got = client.get_object(Bucket="dst", Key="chunked")
    assert (got["Body"].read(), got["ContentEncoding"]) == (body, "gzip")
    status, answer = send("AAAAAA==")
    assert (status, b"BadDigest" in answer) == (400, True)


def test_a_conditional_copy_and_write_see_the_object_that_is_there(simulator: Simulator) -> None:
    client = simulator.client()
    etag = client.head_object(Bucket="src", Key=FIRST)["ETag"]
    source = {"Bucket": "src", "Key": FIRST}

    client.copy_object(Bucket="dst", Key="k", CopySource=source, CopySourceIfMatch=etag)
    with pytest.raises(ClientError) as raised:
        client.copy_object(Bucket="dst", Key="k", CopySource=source, CopySourceIfMatch='"other"')
    assert code(raised) == "PreconditionFailed"
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket="dst", Key="k", Body=b"", IfNoneMatch="*")
    assert code(raised) == "PreconditionFailed"


def test_an_upload_is_resumed_listed_and_counted_as_wasted_when_aborted(simulator: Simulator) -> None:
    client = simulator.client()
    upload = client.create_multipart_upload(Bucket="dst", Key="k", ChecksumAlgorithm="CRC64NVME")["UploadId"]

    def copy(number: int, first: int, last: int) -> dict[str, Any]:
        answer = client.upload_part_copy(
            Bucket="dst",
            Key="k",
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": "src", "Key": FIRST},
            CopySourceRange=f"bytes={first}-{last}",
        )
        return answer["CopyPartResult"]

    copy(1, 0, 5 * MIB - 1)
    again = copy(1, 0, 6 * MIB - 1)
    listed = client.list_parts(Bucket="dst", Key="k", UploadId=upload)["Parts"]
    assert [(part["ETag"], part["Size"]) for part in listed] == [(again["ETag"], 6 * MIB)]
    assert [each["Key"] for each in client.list_multipart_uploads(Bucket="dst")["Uploads"]] == ["k"]
    assert simulator.stats()["open_uploads"] == 1

    client.abort_multipart_upload(Bucket="dst", Key="k", UploadId=upload)

    assert simulator.stats()["wasted"] == {
        "parts_written_again": 5 * MIB,
        "parts_thrown_away": 6 * MIB,
        "objects_written_again": 0,
    }
    with pytest.raises(ClientError) as raised:
        copy(2, 0, 5 * MIB - 1)
    assert code(raised) == "NoSuchUpload"


def test_a_swapped_part_is_another_object(simulator: Simulator) -> None:
    client = simulator.client()
    upload = client.create_multipart_upload(Bucket="dst", Key="k")["UploadId"]
    parts = []
    for number, first in ((1, 10 * MIB), (2, 0)):
        etag = client.upload_part_copy(
            Bucket="dst",
            Key="k",
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": "src", "Key": FIRST},
            CopySourceRange=f"bytes={first}-{first + 10 * MIB - 1}",
        )["CopyPartResult"]["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    client.complete_multipart_upload(Bucket="dst", Key="k", UploadId=upload, MultipartUpload={"Parts": parts})

    assert simulator.check(f"src/{FIRST}", "dst/k")["different_count"] == 1
    heads = [client.head_object(Bucket=b, Key=k, ChecksumMode="ENABLED") for b, k in (("src", FIRST), ("dst", "k"))]
    assert heads[0]["ChecksumCRC64NVME"] != heads[1]["ChecksumCRC64NVME"]


def test_a_hundred_million_keys_are_listed_from_anywhere(make_simulator: Callable[..., Simulator]) -> None:
    simulator = make_simulator("--instant", "--bucket", "b=keys=d{i:04}/f{j:04}.bin;count=100000000;size=1 KiB")
    client = simulator.client()

    page = client.list_objects_v2(Bucket="b", StartAfter="d4321/f9998.bin", MaxKeys=3)
    keys = [entry["Key"] for entry in page["Contents"]]
    assert keys == ["d4321/f9999.bin", "d4322/f0000.bin", "d4322/f0001.bin"]
    page = client.list_objects_v2(Bucket="b", ContinuationToken=page["NextContinuationToken"], MaxKeys=1)
    assert page["Contents"][0]["Key"] == "d4322/f0002.bin"
    client.delete_object(Bucket="b", Key="d9999/f9998.bin")
    client.put_object(Bucket="b", Key="d9999/f9997.bin.bai", Body=b"1")
    tail = client.list_objects_v2(Bucket="b", StartAfter="d9999/f9996.bin")
    assert [entry["Key"] for entry in tail["Contents"]] == ["d9999/f9997.bin", "d9999/f9997.bin.bai", "d9999/f9999.bin"]

    groups = [
        group["Prefix"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket="b", Delimiter="/")
        for group in page["CommonPrefixes"]
    ]
    assert groups == [f"d{i:04}/" for i in range(10_000)]
    [old] = client.list_objects(Bucket="b", Delimiter="/", Marker="d9998/")["CommonPrefixes"]
    assert old["Prefix"] == "d9999/"
    assert client.get_object(Bucket="b", Key="d1234/f5678.bin")["ContentLength"] == 1024


def test_odd_keys_are_ordinary(simulator: Simulator) -> None:
    client = simulator.client()
    keys = sorted(
        ["a b+c", "ü/é\u0301", "//x", "a&<b>'\"", "new\nline", "%41", "a?b#c", "dir/", "..", "a\u0001b"], key=str.encode
    )
    for key in keys:
        client.put_object(Bucket="dst", Key=key, Body=key.encode())
        client.copy_object(Bucket="dst", Key=f"copy/{key}", CopySource={"Bucket": "dst", "Key": key})

    listed = [each["Key"] for each in client.list_objects_v2(Bucket="dst", Prefix="copy/")["Contents"]]

    assert listed == [f"copy/{key}" for key in keys]
    for key in keys:
        assert client.get_object(Bucket="dst", Key=f"copy/{key}")["Body"].read() == key.encode()
    doomed = [{"Key": key} for key in keys if "\u0001" not in key]
    assert "Errors" not in client.delete_objects(Bucket="dst", Delete={"Objects": doomed})


# --- limits and faults ---


def test_more_than_the_limit_is_answered_slow_down(make_simulator: Callable[..., Simulator]) -> None:
    simulator = make_simulator("--instant", "--bucket", "dst", "--set", "model.writes_per_second=4")
    client = simulator.client()

    codes = []
    for i in range(40):
        try:
            client.put_object(Bucket="dst", Key=str(i), Body=b"")
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])

    stats = simulator.stats()
    assert set(codes) == {"SlowDown"}
    assert stats["throttled"] == len(codes) == stats["operations"]["PutObject"]["throttled"]
    assert stats["written_objects"] == 40 - len(codes)
    assert sum(second["throttled"] for second in stats["timeline"]) == len(codes)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("internal_error", "InternalError"),
        ("error_in_200", "InternalError"),
        ("access_denied", "AccessDenied"),
        ("kms_denied", "AccessDenied"),
        ("kms_disabled", "KMS.DisabledException"),
        ("archived", "InvalidObjectState"),
        ("expired_token", "ExpiredToken"),
        ("request_time_too_skewed", "RequestTimeTooSkewed"),
        ({"error": [409, "OperationAborted"]}, "OperationAborted"),
    ],
)
def test_a_fault_is_answered_and_nothing_done(simulator: Simulator, fault: Any, expected: str) -> None:
    simulator.set_faults({"fault": fault, "operation": "CopyObject", "key_prefix": "no/", "times": 1})
    client = simulator.client()
    source = {"Bucket": "src", "Key": FIRST}

    client.copy_object(Bucket="dst", Key="yes/k", CopySource=source)
    with pytest.raises(ClientError) as raised:
        client.copy_object(Bucket="dst", Key="no/k", CopySource=source)

    assert code(raised) == expected
    assert [each["Key"] for each in client.list_objects_v2(Bucket="dst")["Contents"]] == ["yes/k"]
    client.copy_object(Bucket="dst", Key="no/k", CopySource=source)


def test_a_lost_reply_leaves_the_effect_and_a_reset_does_not(simulator: Simulator) -> None:
    client = simulator.client()
    for fault in ("reset", "lost_reply"):
        simulator.set_faults({"fault": fault, "operation": "PutObject"})
        with pytest.raises(BotoCoreError):
            client.put_object(Bucket="dst", Key=fault, Body=b"x")
    assert [each["Key"] for each in client.list_objects_v2(Bucket="dst")["Contents"]] == ["lost_reply"]
    assert simulator.stats()["operations"]["PutObject"]["unanswered"] == 2


def test_bodies_are_truncated_and_corrupted(simulator: Simulator) -> None:
    client = simulator.client(response_checksum_validation="when_required")
    whole = client.get_object(Bucket="src", Key=FIRST)["Body"].read()

    simulator.set_faults({"fault": "corrupt", "operation": "GetObject"})
    wrong = client.get_object(Bucket="src", Key=FIRST)["Body"].read()
    assert sum(a != b for a, b in zip(whole, wrong, strict=True)) == 1
    simulator.set_faults({"fault": "truncate", "operation": "GetObject"})
    with pytest.raises(BotoCoreError):
        client.get_object(Bucket="src", Key=FIRST)["Body"].read()
    simulator.set_faults({"fault": "wrong_etag"})
    put = client.put_object(Bucket="dst", Key="k", Body=b"x")["ETag"]
    simulator.set_faults()
    assert client.head_object(Bucket="dst", Key="k")["ETag"] != put


def test_a_source_that_may_not_be_read_cannot_be_copied(simulator: Simulator) -> None:
    simulator.set_faults({"fault": "access_denied", "operation": "GetObject", "bucket": "src"})
    with pytest.raises(ClientError) as raised:
        simulator.client().copy_object(Bucket="dst", Key="k", CopySource={"Bucket": "src", "Key": FIRST})
    assert code(raised) == "AccessDenied"


def test_regions_credentials_archives_and_capabilities(
    make_simulator: Callable[..., Simulator], tmp_path: Path
) -> None:
    scenario = {
        "buckets": [
            {"name": "cold", "objects": [{"keys": "k", "size": 10, "storage_class": "GLACIER"}]},
            {"name": "far", "region": "eu-west-1", "objects": [{"keys": "k", "size": 10}]},
            {"name": "new", "region": "eu-south-2", "elsewhere": "malformed"},
            {"name": "secret", "objects": [{"keys": "k", "size": 10, "kms_key": "alias/k"}]},
        ],
        "credentials": [{"access_key": "dead", "expires_after_seconds": 0}],
        "without": ["part_copy", "checksums"],
    }
    simulator = make_simulator("--instant", scenario=scenario, folder=tmp_path)
    client = simulator.client()

    with pytest.raises(ClientError) as raised:
        client.get_object(Bucket="cold", Key="k")
    assert code(raised) == "InvalidObjectState"
    assert client.head_object(Bucket="cold", Key="k")["StorageClass"] == "GLACIER"
    assert simulator.client(region="eu-west-1").get_object(Bucket="far", Key="k")["ContentLength"] == 10
    assert client.get_object(Bucket="far", Key="k")["ContentLength"] == 10, "botocore follows the redirect"
    with pytest.raises(ClientError) as raised:
        simulator.client(access_key="dead").list_buckets()
    assert code(raised) == "ExpiredToken"
    with pytest.raises(ClientError) as raised:
        client.upload_part_copy(
            Bucket="cold", Key="k", UploadId="x", PartNumber=1, CopySource={"Bucket": "far", "Key": "k"}
        )
    assert (code(raised), "UploadPartCopy" in str(raised.value)) == ("NotImplemented", True)
    head = client.head_object(Bucket="secret", Key="k", ChecksumMode="ENABLED")
    assert head["ServerSideEncryption"] == "aws:kms"
    assert not [name for name in head if name.startswith("Checksum")]


def test_a_wrong_clock_is_told_with_the_right_one(make_simulator: Callable[..., Simulator]) -> None:
    simulator = make_simulator("--instant", "--bucket", SOURCE, "--set", "clock_offset_seconds=3600")

    with pytest.raises(ClientError) as raised:
        simulator.client().get_object(Bucket="src", Key=FIRST)

    assert code(raised) == "RequestTimeTooSkewed"


def test_what_is_not_kept_is_refused_not_made_up(make_simulator: Callable[..., Simulator], rng: random.Random) -> None:
    simulator = make_simulator("--instant", "--bucket", "dst", "--set", "memory=1 MiB")
    client = simulator.client()
    body = rng.randbytes(2 * MIB)

    client.put_object(Bucket="dst", Key="k", Body=body)
    client.copy_object(Bucket="dst", Key="copy", CopySource={"Bucket": "dst", "Key": "k"})

    assert simulator.check("dst/k", "dst/copy")["same"] == 1
    assert client.head_object(Bucket="dst", Key="copy")["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    with pytest.raises(ClientError) as raised:
        client.get_object(Bucket="dst", Key="k")
    assert code(raised) == "NotImplemented"


def test_an_operation_that_is_not_known_is_named(simulator: Simulator) -> None:
    client = simulator.client()
    for call, name in (
        (lambda: client.get_object_acl(Bucket="src", Key=FIRST), "GetObjectAcl"),
        (lambda: client.list_object_versions(Bucket="src"), "ListObjectVersions"),
        (lambda: client.get_bucket_policy(Bucket="src"), "policy"),
        (
            lambda: client.get_object(Bucket="src", Key=FIRST, SSECustomerAlgorithm="AES256", SSECustomerKey="0" * 32),
            "customer",
        ),
    ):
        with pytest.raises(ClientError) as raised:
            call()
        assert code(raised) == "NotImplemented"
        assert name in str(raised.value)


def test_impossible_options_are_named_and_end_with_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refused("--listen", address)
    (tmp_path / "s.json").write_text('{"buckets": [{"name": "b", "colour": 1}]}')
    for options, told in (
        (("--colour",), "--colour"),
        (("--bucket",), "--bucket"),
        (("--bucket", "b=keys=k;count=2"), "fewer than 2"),
        (("--set", "model.writes_per_second=0"), "writes_per_second"),
        (("--set", "model.part_copy.base=1"), "base"),
        (("--set", "colour=1"), "colour"),
        (("--time-scale", "0"), "time_scale"),
        (("--scenario", str(tmp_path / "none.json")), "none.json"),
        (("--scenario", str(tmp_path / "s.json")), "colour"),
        (("--threads", "0"), "threads"),
    ):
        said = refused(*options)
        assert told in said
        assert "panicked" not in said


def test_time_passes_as_scaled(make_simulator: Callable[..., Simulator]) -> None:
    simulator = make_simulator(
        "--instant", "--bucket", SOURCE, "--time-scale", "10", "--set", "model.small.base_seconds=5"
    )
    client = simulator.client()
    client.list_buckets()

    started = time.monotonic()
    client.head_object(Bucket="src", Key=FIRST)

    # At least: a busy machine may take longer.
    assert time.monotonic() - started >= 0.45


# --- other clients ---


def test_awscli_copies_syncs_and_lists(simulator: Simulator, tmp_path: Path) -> None:
    aws = tool("aws", "SEQFERRY_AWS")

    run([aws, "s3", "sync", "s3://src/run42/", "s3://dst/sync/", "--quiet"], simulator)
    run([aws, "s3", "cp", f"s3://src/{FIRST}", tmp_path / "file", "--quiet"], simulator)
    run([aws, "s3", "cp", tmp_path / "file", "s3://dst/uploaded", "--quiet"], simulator)
    listed = run([aws, "s3", "ls", "--recursive", "s3://dst/sync/"], simulator).stdout

    simulator.assert_same("src/run42/", "dst/sync/", objects=6)
    assert simulator.check(f"src/{FIRST}", "dst/uploaded")["same"] == 1
    assert len(listed.splitlines()) == 6
    assert simulator.stats()["open_uploads"] == 0


def test_s5cmd_copies_gets_puts_and_lists(simulator: Simulator, tmp_path: Path) -> None:
    s5cmd = [tool("s5cmd", "SEQFERRY_S5CMD"), "--endpoint-url", simulator.endpoint_url]

    run([*s5cmd, "cp", "s3://src/run42/*", "s3://dst/copied/"], simulator)
    run([*s5cmd, "cp", f"s3://src/{FIRST}", tmp_path / "file"], simulator)
    run([*s5cmd, "cp", tmp_path / "file", "s3://dst/uploaded"], simulator)
    listed = run([*s5cmd, "ls", "s3://src/run42/*"], simulator).stdout

    simulator.assert_same("src/run42/", "dst/copied/", objects=6)
    assert simulator.check(f"src/{FIRST}", "dst/uploaded")["same"] == 1
    assert len(listed.splitlines()) == 6


def test_rclone_copies_in_parts_and_checks_hashes(simulator: Simulator, tmp_path: Path) -> None:
    rclone = tool("rclone", "SEQFERRY_RCLONE")
    remote = {
        "RCLONE_CONFIG": os.devnull,
        "RCLONE_CONFIG_SIM_TYPE": "s3",
        "RCLONE_CONFIG_SIM_PROVIDER": "AWS",
        "RCLONE_CONFIG_SIM_ENV_AUTH": "true",
        "RCLONE_CONFIG_SIM_ENDPOINT": simulator.endpoint_url,
        "RCLONE_CONFIG_SIM_REGION": "us-east-1",
        "RCLONE_CONFIG_SIM_FORCE_PATH_STYLE": "true",
        "RCLONE_S3_NO_CHECK_BUCKET": "true",
        # Over plain HTTP rclone cannot send the checksums that it would like to.
        "RCLONE_S3_USE_DATA_INTEGRITY_PROTECTIONS": "false",
        "RCLONE_RETRIES": "1",
    }

    run([rclone, "copy", "--s3-copy-cutoff", "10M", "SIM:src/run42", "SIM:dst/copied"], simulator, **remote)
    run([rclone, "copy", f"SIM:src/{FIRST}", tmp_path], simulator, **remote)
    run(
        [rclone, "copyto", "--s3-use-presigned-request", tmp_path / Path(FIRST).name, "SIM:dst/at-once"],
        simulator,
        **remote,
    )
    run(
        [rclone, "copyto", "--s3-upload-cutoff", "6M", tmp_path / Path(FIRST).name, "SIM:dst/in-parts"],
        simulator,
        **remote,
    )

    simulator.assert_same("src/run42/", "dst/copied/", objects=6)
    assert simulator.check(f"src/{FIRST}", "dst/at-once")["same"] == 1
    assert simulator.check(f"src/{FIRST}", "dst/in-parts")["same"] == 1
