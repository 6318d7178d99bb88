"""Headers that servers send in great number, and that proxies take away."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from support.mover import MIB, SMALL_PARTS, Mover
from support.proxy import Proxy, drop_header
from support.servers import S3Server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


def test_an_object_with_more_than_a_hundred_metadata_entries_is_copied_and_downloaded(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    from_, to, mover = make_bucket(s3server), make_bucket(s3server), make_mover(s3server)
    metadata = {f"k{number:03d}": "v" for number in range(110)}
    s3server.client().put_object(Bucket=from_, Key="run/dressed", Body=b"content", Metadata=metadata)

    code, summary, err = mover.copy(f"s3://{from_}/run/", f"{tmp_path}/in")
    assert (code, summary["objects_done"], summary["retries"]) == (0, 1, 0), f"{summary}\n{err}"
    assert (tmp_path / "in/dressed").read_bytes() == b"content"

    code, summary, err = mover.copy(f"s3://{from_}/run/dressed", f"s3://{to}/in/")
    assert (code, summary["objects_done"], summary["retries"]) == (0, 1, 0), f"{summary}\n{err}"


def test_a_signed_download_through_a_proxy_that_drops_ranges_is_read_as_one_stream(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, content = make_bucket(s3server), rng.randbytes(11 * MIB)
    s3server.client().put_object(Bucket=bucket, Key="run/big", Body=content)
    proxy.rule("GetObject", drop_header("range"))
    mover = make_mover(proxy.server)

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"{tmp_path}/in", *SMALL_PARTS)

    assert (code, summary["objects_done"]) == (0, 1), f"{summary}\n{err}"
    assert (tmp_path / "in/big").read_bytes() == content
    assert "drops the Range header" in err
