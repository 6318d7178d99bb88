"""Between two endpoints that know nothing of each other: the bytes pass through us."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB, Shape, differences, fill, open_uploads, snapshot
from support.mover import SMALL_PARTS, Mover
from support.servers import S3Server


@pytest.mark.parametrize("way", ["versitygw to seaweedfs", "seaweedfs to versitygw"])
def test_objects_arrive_identical_on_another_endpoint(
    versitygw: S3Server,
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    way: str,
) -> None:
    source, target = (versitygw, seaweedfs) if way.startswith("versitygw") else (seaweedfs, versitygw)
    from_, to = make_bucket(source), make_bucket(target)
    sizes = [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 17 * MIB]
    fill(source, from_, rng, Shape(objects=60, sizes=sizes, odd=False))
    mover = make_mover(source)
    endpoints = ("--source-endpoint-url", source.endpoint_url, "--target-endpoint-url", target.endpoint_url)

    planned = mover.start("cp", f"s3://{from_}/", f"s3://{to}/copy/", *endpoints, "--dry-run")
    assert planned.wait() == 0
    assert "source and target are on different endpoints" in planned.stderr

    code, summary, err = mover.copy(f"s3://{from_}/", f"s3://{to}/copy/", *endpoints, *SMALL_PARTS)

    assert code == 0, f"{summary}\n{err}"
    assert summary["streamed"] == summary["objects_done"] == 60
    found = differences(snapshot(source, from_), snapshot(target, to, "copy/"))
    assert not found, "\n".join(found)
    assert {record.method for record in mover.objects(str(summary["id"]))} == {"stream"}
    assert open_uploads(target, to) == []

    code, summary, err = mover.copy(f"s3://{from_}/", f"s3://{to}/copy/", *endpoints, *SMALL_PARTS)
    assert (code, summary["objects_skipped"]) == (0, 60), f"{summary}\n{err}"


def test_what_the_storage_may_not_copy_passes_through_us(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    from_, to = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, from_, rng, Shape(objects=20, sizes=[0, 1, 11 * MIB], odd=False))
    profiles = tmp_path / "aws-config"
    profiles.write_text(
        "".join(
            f"[profile {name}]\naws_access_key_id = {who.access_key}\naws_secret_access_key = {who.secret_key}\n"
            for name, who in (("vendor", s3server.admin), ("ours", s3server.user))
        )
    )
    # Ours may write to the target, and not read the source; the vendor's identity may.
    s3server.deny(from_, "*", actions=("s3:GetObject", "s3:GetObjectTagging"))
    mover = make_mover(s3server)
    mover.env["AWS_CONFIG_FILE"] = str(profiles)
    identities = ("--source-profile", "vendor", "--target-profile", "ours")

    code, summary, err = mover.copy(f"s3://{from_}/", f"s3://{to}/", *identities, *SMALL_PARTS)

    assert code == 0, f"{summary}\n{err}"
    assert summary["streamed"] == summary["objects_done"] == 20
    found = differences(snapshot(s3server, from_), snapshot(s3server, to))
    assert not found, "\n".join(found)
    assert open_uploads(s3server, to) == []
