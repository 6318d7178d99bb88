"""``seqferry cp --cache``: downloads and mounts share one disk cache, and what is there is not fetched again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.mover import Mover
from support.processes import run, seqferry
from support.proxy import Proxy, corrupt
from support.servers import S3Server

Put = Callable[..., None]
MIB = 1024 * 1024


def _objects(rng: random.Random) -> dict[str, bytes]:
    return {"ref/genome.fa": rng.randbytes(20 * MIB + 77), "ref/genome.fa.fai": rng.randbytes(999), "ref/empty": b""}


def _copy(mover: Mover, bucket: str, target: Path, cache: Path, *options: str) -> dict[str, bytes]:
    code, summary, said = mover.copy(f"s3://{bucket}/ref/", f"{target}/", "--cache", str(cache), *options)
    assert (code, summary["objects_done"]) == (0, 3), said
    return {f"ref/{path.name}": path.read_bytes() for path in target.iterdir()}


def test_what_was_staged_once_is_not_fetched_again(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    mounter: Mounter,
    put: Put,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    objects = _objects(rng)
    put(proxy.server, bucket, objects)
    mover, cache = make_mover(proxy.server), tmp_path / "cache"

    assert _copy(mover, bucket, tmp_path / "first", cache) == objects
    assert proxy.log("GetObject")
    proxy.clear_log()
    # Another part size: the cache knows blocks, not parts.
    assert (
        _copy(mover, bucket, tmp_path / "second", cache, "--part-size", "7MiB", "--copy-threshold", "5MiB") == objects
    )
    mount = mounter(proxy.server, f"s3://{bucket}/ref", "--cache", str(cache))
    assert (mount.directory / "genome.fa").read_bytes() == objects["ref/genome.fa"]

    fetched = [record.key for record in proxy.log("GetObject") if record.key != "ref/empty"]
    assert fetched == [], "every byte was in the cache"


def test_what_a_mount_has_read_is_not_fetched_by_a_copy(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    mounter: Mounter,
    put: Put,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    objects = _objects(rng)
    put(proxy.server, bucket, objects)
    cache = tmp_path / "cache"
    mount = mounter(proxy.server, f"s3://{bucket}/ref", "--cache", str(cache))
    with (mount.directory / "genome.fa").open("rb") as file:
        file.seek(5 * MIB)
        file.read(8 * MIB)
    mount.umount()
    proxy.clear_log()

    assert _copy(make_mover(proxy.server), bucket, tmp_path / "copy", cache) == objects

    fetched = sum(record.reply_bytes for record in proxy.log("GetObject") if record.key == "ref/genome.fa")
    assert fetched <= 13 * MIB, "only what the mount has not read"


def test_a_damaged_cache_is_never_copied(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    put: Put,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    objects = _objects(rng)
    put(proxy.server, bucket, objects)
    mover, cache = make_mover(proxy.server), tmp_path / "cache"
    assert _copy(mover, bucket, tmp_path / "first", cache) == objects
    for data in (cache / "objects").rglob("*.data"):
        with data.open("r+b") as file:
            file.seek(rng.randrange(data.stat().st_size))
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
    proxy.clear_log()

    assert _copy(mover, bucket, tmp_path / "second", cache) == objects
    fetched = sum(record.reply_bytes for record in proxy.log("GetObject"))
    assert 0 < fetched < 2 * MIB, "the damaged blocks and no more"


def test_bytes_that_were_wrong_on_the_way_do_not_stay_in_the_cache(
    proxy: Proxy, make_bucket: Callable[..., str], make_mover: Callable[..., Mover], tmp_path: Path, rng: random.Random
) -> None:
    bucket = make_bucket(proxy.server)
    body = rng.randbytes(3 * MIB)
    proxy.server.client().put_object(Bucket=bucket, Key="ref/a", Body=body)
    mover, cache = make_mover(proxy.server), tmp_path / "cache"
    rule = proxy.rule("GetObject", corrupt(MIB + 7), times=1)

    code, _, said = mover.copy(f"s3://{bucket}/ref/", f"{tmp_path}/copy/", "--cache", str(cache))

    assert proxy.fired(rule) == 1
    assert code == 0, said
    assert (tmp_path / "copy" / "a").read_bytes() == body
    run([seqferry(), "cache", "verify", "--cache", cache], environment=proxy.server.environment())
    proxy.clear_log()
    code, _, said = mover.copy(f"s3://{bucket}/ref/", f"{tmp_path}/again/", "--cache", str(cache))
    assert code == 0, said
    assert (tmp_path / "again" / "a").read_bytes() == body


def test_a_cache_that_cannot_be_used_is_refused_in_one_line(
    seaweedfs: S3Server, make_bucket: Callable[..., str], make_mover: Callable[..., Mover], put: Put, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"ref/a": b"x"})
    (full := tmp_path / "full").mkdir()
    (full / "file").touch()
    mover = make_mover(seaweedfs)

    code, _, said = mover.copy(f"s3://{bucket}/ref/", f"{tmp_path}/copy/", "--cache", str(full))

    assert code == 1
    assert "it holds other files" in said
    assert len(said.strip().splitlines()) == 1, said
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("part", ["objects", "usage"])
def test_a_cache_that_fails_under_way_costs_requests_and_nothing_else(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    put: Put,
    tmp_path: Path,
    rng: random.Random,
    part: str,
) -> None:
    bucket = make_bucket(seaweedfs)
    objects = _objects(rng)
    put(seaweedfs, bucket, objects)
    mover, cache = make_mover(seaweedfs), tmp_path / "cache"
    assert _copy(mover, bucket, tmp_path / "first", cache) == objects
    # What the cache needs has become something else.
    broken = cache / part
    if broken.is_dir():
        broken.rename(cache / "gone")
        broken.touch()
    else:
        broken.unlink()
        broken.mkdir()
    code, _, said = mover.copy(f"s3://{bucket}/ref/", f"{tmp_path}/second/", "--cache", str(cache))
    if code == 1:
        assert "Cannot use" in said, "refused before anything was done"
    else:
        found = {f"ref/{path.name}": path.read_bytes() for path in (tmp_path / "second").iterdir()}
        assert (code, found) == (0, objects), said
