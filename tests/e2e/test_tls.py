"""Storage behind TLS: the authorities that the command trusts, and the message for one that it does not trust."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.buckets import MIB, keys
from support.mover import SMALL_PARTS, Mover
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

SIZES = [21 * MIB, 11 * MIB + 7, 5 * MIB, 100_000, 1, 0]


def _said(mover: Mover, *arguments: str, **env: str) -> tuple[int, str]:
    mover.env |= env
    running = mover.start(*arguments)
    return running.wait(), running.stderr


def test_files_go_up_across_and_down_again(
    secure_server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, rng: random.Random
) -> None:
    bucket, mover = make_bucket(secure_server), make_mover(secure_server)
    source = tmp_path / "source"
    source.mkdir()
    for number, size in enumerate(SIZES):
        (source / f"file-{number}").write_bytes(rng.randbytes(size))
    content = {path.name: path.read_bytes() for path in source.iterdir()}

    up = mover.copy(f"{source}/", f"s3://{bucket}/up/", *SMALL_PARTS)
    across = mover.copy(f"s3://{bucket}/up/", f"s3://{bucket}/across/", *SMALL_PARTS)
    down = mover.copy(f"s3://{bucket}/across/", f"{tmp_path}/target/", *SMALL_PARTS)

    assert [code for code, _, _ in (up, across, down)] == [0, 0, 0], (up, across, down)
    client = secure_server.client()
    stored = {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys(secure_server, bucket)}
    assert stored == {f"{prefix}/{name}": data for prefix in ("up", "across") for name, data in content.items()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == content


def test_an_authority_that_nobody_here_knows_is_refused_at_once(
    secure_server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    bucket, mover = make_bucket(secure_server), make_mover(replace(secure_server, ca=None))

    code, said = _said(mover, "ls", f"s3://{bucket}/")

    assert code == 1
    assert "CertificateNotTrusted" in said
    assert secure_server.endpoint_url in said
    assert "UnknownIssuer" in said
    assert "set AWS_CA_BUNDLE to a file" in said


def test_a_certificate_for_somebody_else_is_refused(
    secure_server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    bucket, mover = make_bucket(secure_server), make_mover(secure_server)
    elsewhere = f"https://localhost:{urlsplit(secure_server.endpoint_url).port}"

    code, said = _said(mover, "ls", f"s3://{bucket}/", AWS_ENDPOINT_URL=elsewhere)

    assert code == 1
    assert "CertificateNotTrusted" in said
    assert elsewhere in said


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("", "holds no certificates"), ("-----BEGIN CERTIFICATE-----\n", "")]
)
def test_a_bundle_that_cannot_be_used_is_named(
    secure_server: S3Server, make_mover: MoverFactory, tmp_path: Path, content: str | None, why: str
) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)

    code, said = _said(make_mover(secure_server), "ls", "s3://bucket/", AWS_CA_BUNDLE=str(bundle))

    assert code == 1
    assert f"{bundle}: " in said
    assert why in said


def test_a_profile_names_a_bundle_as_well(
    secure_server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"[profile lab]\nca_bundle = {secure_server.ca}\n")
    bucket, mover = make_bucket(secure_server), make_mover(replace(secure_server, ca=None))
    secure_server.client().put_object(Bucket=bucket, Key="a", Body=b"")

    code, said = _said(mover, "ls", f"s3://{bucket}/", AWS_PROFILE="lab", AWS_CONFIG_FILE=str(config))

    assert code == 0, said
