"""Server-side encryption: as asked, as the source has it, and seen at the target."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from compat.fleet import Endpoint
from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server
from support.trees import settle

KMS_KEY = "lab"
EndpointMoverFactory = Callable[[Any], Mover]
EndpointBucketFactory = Callable[[Endpoint], str]
BucketFactory = Callable[..., str]


def _fill(client: Any, bucket: str, rng: random.Random, **put: Any) -> dict[str, bytes]:
    contents = {"run/small": b"ACGT", "run/empty": b"", "run/big": rng.randbytes(11 * MIB)}
    for key, content in contents.items():
        client.put_object(Bucket=bucket, Key=key, Body=content, **put)
    return contents


def _arrived(client: Any, bucket: str, contents: dict[str, bytes], **head: Any) -> set[tuple[str | None, str | None]]:
    """The encryption of all objects, which must hold what their sources do."""
    found = set[tuple[str | None, str | None]]()
    for key, content in contents.items():
        name = key.replace("run/", "in/")
        answer = client.get_object(Bucket=bucket, Key=name, **head)
        assert answer["Body"].read() == content, key
        key_id = answer.get("SSEKMSKeyId")
        found.add((answer.get("ServerSideEncryption"), key_id.rsplit(":", 1)[-1] if key_id else None))
    return found


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--sse", "AES256"), ("AES256", None)),
        (("--sse", "aws:kms", "--sse-kms-key-id", KMS_KEY), ("aws:kms", KMS_KEY)),
    ],
)
def test_copies_and_uploads_are_encrypted_as_asked(
    kms_server: Endpoint,
    new_bucket: EndpointBucketFactory,
    mover_at: EndpointMoverFactory,
    rng: random.Random,
    tmp_path: Path,
    options: tuple[str, ...],
    wanted: tuple[str, str | None],
) -> None:
    source, target, client, mover = new_bucket(kms_server), new_bucket(kms_server), kms_server.client(), None
    mover = mover_at(kms_server)
    contents = _fill(client, source, rng)

    code, _, err = mover.copy(f"s3://{source}/run/", f"s3://{target}/in/", *SMALL_PARTS, *options)

    assert code == 0, err
    assert _arrived(client, target, contents) == {wanted}
    folder = tmp_path / "run"
    folder.mkdir()
    for key, content in contents.items():
        (tmp_path / key).write_bytes(content)
        settle(tmp_path / key)
    up = new_bucket(kms_server)
    code, _, err = mover.copy(f"{folder}/", f"s3://{up}/in/", *SMALL_PARTS, *options)
    assert code == 0, err
    assert _arrived(client, up, contents) == {wanted}


def test_a_move_is_encrypted_with_the_chosen_key(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory
) -> None:
    source, target, client = new_bucket(moto), new_bucket(moto), moto.client()
    for name in ("a", "b"):
        client.put_object(Bucket=source, Key=f"run/{name}", Body=b"ACGT")

    moved = mover_at(moto).start(
        "mv", f"s3://{source}/run/", f"s3://{target}/in/", "--min-age", "0s", "--content-type", "text/x-lane",
        "--sse", "aws:kms", "--sse-kms-key-id", KMS_KEY,
    )  # fmt: skip

    assert moved.wait(120) == 0, moved.stderr
    for name in ("a", "b"):
        head = client.head_object(Bucket=target, Key=f"in/{name}")
        assert (head["ServerSideEncryption"], head["ContentType"]) == ("aws:kms", "text/x-lane")
        assert head["SSEKMSKeyId"].endswith(KMS_KEY)
    assert "Contents" not in client.list_objects_v2(Bucket=source)


@pytest.mark.parametrize(
    ("put", "wanted"),
    [
        ({"ServerSideEncryption": "AES256"}, ("AES256", None)),
        ({"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KMS_KEY}, ("aws:kms", KMS_KEY)),
    ],
)
def test_what_is_encrypted_stays_so_unless_it_is_asked_not_to(
    kms_server: Endpoint,
    new_bucket: EndpointBucketFactory,
    mover_at: EndpointMoverFactory,
    rng: random.Random,
    put: dict[str, str],
    wanted: tuple[str, str | None],
) -> None:
    source, target, client = new_bucket(kms_server), new_bucket(kms_server), kms_server.client()
    mover = mover_at(kms_server)
    contents = _fill(client, source, rng, **put)

    code, _, err = mover.copy(f"s3://{source}/run/", f"s3://{target}/in/", *SMALL_PARTS)

    assert code == 0, err
    assert _arrived(client, target, contents) == {wanted}
    plain = new_bucket(kms_server)
    code, _, err = mover.copy(f"s3://{source}/run/", f"s3://{plain}/in/", *SMALL_PARTS, "--sse", "none")
    assert code == 0, err
    assert _arrived(client, plain, contents) == {(None, None)}


def test_a_key_that_kms_does_not_know_fails_with_words(
    kms_server: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory
) -> None:
    source, target = new_bucket(kms_server), new_bucket(kms_server)
    kms_server.client().put_object(Bucket=source, Key="run/a", Body=b"a")

    code, summary, _ = mover_at(kms_server).copy(
        f"s3://{source}/run/", f"s3://{target}/in/", "--sse", "aws:kms", "--sse-kms-key-id", "nobody"
    )

    assert (code, summary["objects_failed"]) == (1, 1)
    assert "Contents" not in kms_server.client().list_objects_v2(Bucket=target)


def test_a_server_that_drops_encryption_in_silence_is_found_out_and_nothing_stays(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: Callable[[S3Server], Mover], rng: random.Random
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    _fill(versitygw.client(), source, rng)
    mover = make_mover(versitygw)

    code, summary, err = mover.copy(f"s3://{source}/run/", f"s3://{target}/in/", *SMALL_PARTS, "--sse", "AES256")

    assert (code, summary["objects_failed"]) == (1, 3), err
    failed = mover.objects(summary["id"], "failed")
    assert {one.error_code for one in failed} == {"NotEncrypted"}
    assert "AES256 was sent, and the target shows no encryption" in str(failed[0].error_message)
    assert "Contents" not in versitygw.client().list_objects_v2(Bucket=target)
    assert "Uploads" not in versitygw.client().list_multipart_uploads(Bucket=target)


def test_a_customers_key_encrypts_and_reads_and_is_nowhere_on_record(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    first, second, client, mover = make_bucket(seaweedfs), make_bucket(seaweedfs), seaweedfs.client(), None
    mover = make_mover(seaweedfs)
    keys = [rng.randbytes(32), rng.randbytes(32)]
    (tmp_path / "one.key").write_bytes(keys[0])
    (tmp_path / "two.key").write_text(base64.b64encode(keys[1]).decode() + "\n")
    names = [f"fileb://{tmp_path}/one.key", f"{tmp_path}/two.key"]
    contents = {"run/small": b"ACGT", "run/big": rng.randbytes(11 * MIB)}
    (tmp_path / "run").mkdir()
    for key, content in contents.items():
        (tmp_path / key).write_bytes(content)
        settle(tmp_path / key)

    # Up with the first key, over to the second, and down again.
    code, summary, err = mover.copy(f"{tmp_path}/run/", f"s3://{first}/run/", *SMALL_PARTS, "--sse-c-key", names[0])
    assert code == 0, (err, [o.error_message for o in mover.objects(summary["id"], "failed")])
    over = ("--sse-c-copy-source-key", names[0], "--sse-c-key", names[1])
    code, _, err = mover.copy(f"s3://{first}/run/", f"s3://{second}/in/", *SMALL_PARTS, *over)
    assert code == 0, err
    mover.env["LAB_KEY"] = base64.b64encode(keys[1]).decode()
    code, _, err = mover.copy(f"s3://{second}/in/", f"{tmp_path}/back/", *SMALL_PARTS, "--sse-c-key", "env:LAB_KEY")
    assert code == 0, err

    for key, content in contents.items():
        name = key.replace("run/", "in/")
        assert (tmp_path / "back" / name.removeprefix("in/")).read_bytes() == content
        with pytest.raises(ClientError):
            client.get_object(Bucket=second, Key=name)
        read = client.get_object(Bucket=second, Key=name, SSECustomerAlgorithm="AES256", SSECustomerKey=keys[1])
        assert read["Body"].read() == content
    code, summary, err = mover.copy(f"s3://{second}/in/", f"{tmp_path}/not/", "--sse-c-key", names[0])
    assert (code, summary["objects_failed"]) == (1, 2), err
    recorded = b"".join(path.read_bytes() for path in mover.state.rglob("*") if path.is_file())
    for key in keys:
        assert key not in recorded
        assert base64.b64encode(key) not in recorded


def test_a_move_and_a_check_take_customers_keys(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    first, second, client = make_bucket(seaweedfs), make_bucket(seaweedfs), seaweedfs.client()
    mover, keys = make_mover(seaweedfs), [rng.randbytes(32), rng.randbytes(32)]
    for number, key in enumerate(keys):
        (tmp_path / f"{number}.key").write_bytes(key)
    contents = {"run/small": b"ACGT", "run/big": rng.randbytes(11 * MIB)}
    for name, content in contents.items():
        client.put_object(Bucket=first, Key=name, Body=content, SSECustomerAlgorithm="AES256", SSECustomerKey=keys[0])
    own = ("--sse-c-copy-source-key", f"{tmp_path}/0.key", "--sse-c-key", f"{tmp_path}/1.key")
    places = (f"s3://{first}/run/", f"s3://{second}/in/")
    copied = mover.start("cp", *places, *SMALL_PARTS, *own)
    assert copied.wait(120) == 0, copied.stderr

    compared = mover.start("check", *places, *own)
    assert compared.wait(120) == 0, compared.stderr
    moved = mover.start("mv", places[0], f"s3://{second}/moved/", *SMALL_PARTS, *own)
    assert moved.wait(120) == 0, moved.stderr

    for name, content in contents.items():
        key = name.replace("run/", "moved/")
        read = client.get_object(Bucket=second, Key=key, SSECustomerAlgorithm="AES256", SSECustomerKey=keys[1])
        assert read["Body"].read() == content
    assert "Contents" not in client.list_objects_v2(Bucket=first)


def test_a_worker_without_the_key_leaves_the_transfer_alone(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: Callable[[S3Server], Mover], tmp_path: Path
) -> None:
    bucket, mover = make_bucket(seaweedfs), make_mover(seaweedfs)
    key, file = tmp_path / "lab.key", tmp_path / "a"
    key.write_bytes(bytes(range(32)))
    file.write_bytes(b"a")
    settle(file)

    transfer = mover.submit(str(file), f"s3://{bucket}/a", "--sse-c-key", str(key))
    key.write_bytes(bytes(32))
    refused = mover.start("resume", transfer)

    assert refused.wait() != 0
    assert f"the SSE-C key in {key}" in refused.stderr
    assert "Traceback" not in refused.stderr
    key.write_bytes(bytes(range(32)))
    assert mover.start("resume", transfer).wait() == 0
    head = seaweedfs.client().head_object(
        Bucket=bucket, Key="a", SSECustomerAlgorithm="AES256", SSECustomerKey=key.read_bytes()
    )
    assert head["SSECustomerAlgorithm"] == "AES256"


def test_a_key_on_the_command_line_is_refused_and_not_repeated(
    make_mover: Callable[[S3Server], Mover], versitygw: S3Server, tmp_path: Path
) -> None:
    key = base64.b64encode(b"k" * 32).decode()
    (tmp_path / "a").write_bytes(b"a")

    ran = make_mover(versitygw).start("cp", str(tmp_path / "a"), "s3://bucket/a", "--sse-c-key", key)

    assert ran.wait() == 2
    assert "must not be on the command line" in ran.stderr
    assert key not in ran.stderr
