"""``seqferry cp --cache``: downloads and mounts share one disk cache, and what is there is not fetched again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.mover import Mover
from support.processes import run_seqferry
from support.proxy import Proxy, corrupt
from support.servers import S3Server

ObjectWriter = Callable[..., None]
MIB = 1024 * 1024


@dataclass(frozen=True)
class Reference:
    """Three objects of a bucket behind a proxy, a command to copy them, and a cache."""

    proxy: Proxy
    uri: str
    objects: dict[str, bytes]
    mover: Mover
    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def stage(self, name: str, *options: str) -> dict[str, bytes]:
        """Copies all of it into a new folder through the cache, and says what is there."""
        target = self.folder / name
        code, summary, said = self.mover.copy(self.uri, f"{target}/", "--cache", str(self.cache), *options)
        assert (code, summary["objects_done"]) == (0, len(self.objects)), said
        return _read(target)

    def fetched(self, key: str = "") -> int:
        """Bytes that came from the server since the log was cleared, of one object or all."""
        return sum(one.reply_bytes for one in self.proxy.log("GetObject") if key in (one.key, ""))


def _read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def reference(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> Reference:
    bucket = make_bucket(proxy.server)
    objects = {"genome.fa": rng.randbytes(20 * MIB + 77), "genome.fa.fai": rng.randbytes(999), "empty": b""}
    put(proxy.server, bucket, {f"ref/{name}": body for name, body in objects.items()})
    return Reference(proxy, f"s3://{bucket}/ref/", objects, make_mover(proxy.server), tmp_path)


def test_what_was_staged_once_is_not_fetched_again(reference: Reference, mounter: Mounter) -> None:
    assert reference.stage("first") == reference.objects
    assert reference.fetched() > 20 * MIB
    reference.proxy.clear_log()
    # Another part size: the cache knows blocks, not parts.
    assert reference.stage("second", "--part-size", "7MiB", "--copy-threshold", "5MiB") == reference.objects
    mount = mounter(reference.proxy.server, reference.uri, "--cache", str(reference.cache))
    assert (mount.directory / "genome.fa").read_bytes() == reference.objects["genome.fa"]

    fetched = [record for record in reference.proxy.log("GetObject") if record.key != "ref/empty"]
    assert max((record.reply_bytes for record in fetched), default=0) <= 1, "every byte was in the cache"
    assert len(fetched) <= 2 * 2, "each of the two asks once for each object whether it may read it"


def test_what_a_mount_has_read_is_not_fetched_by_a_copy(reference: Reference, mounter: Mounter) -> None:
    mount = mounter(reference.proxy.server, reference.uri, "--cache", str(reference.cache))
    with (mount.directory / "genome.fa").open("rb") as file:
        file.seek(5 * MIB)
        file.read(8 * MIB)
    mount.umount()
    reference.proxy.clear_log()

    assert reference.stage("copy") == reference.objects

    assert reference.fetched("ref/genome.fa") <= 13 * MIB, "only what the mount has not read"


def test_a_damaged_cache_is_never_copied(reference: Reference, rng: random.Random) -> None:
    assert reference.stage("first") == reference.objects
    for data in (reference.cache / "objects").rglob("*.data"):
        with data.open("r+b") as file:
            file.seek(rng.randrange(data.stat().st_size))
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
    reference.proxy.clear_log()

    assert reference.stage("second") == reference.objects
    assert 0 < reference.fetched() < 2 * MIB, "the damaged blocks and no more"


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
    run_seqferry("cache", "verify", "--cache", cache, environment=proxy.server.environment())
    proxy.clear_log()
    code, _, said = mover.copy(f"s3://{bucket}/ref/", f"{tmp_path}/again/", "--cache", str(cache))
    assert code == 0, said
    assert (tmp_path / "again" / "a").read_bytes() == body


def test_a_cache_that_cannot_be_used_is_refused_in_one_line(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[..., Mover],
    put: ObjectWriter,
    tmp_path: Path,
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
def test_a_cache_that_fails_under_way_costs_requests_and_nothing_else(reference: Reference, part: str) -> None:
    assert reference.stage("first") == reference.objects
    # What the cache needs has become something else.
    broken = reference.cache / part
    if broken.is_dir():
        broken.rename(reference.cache / "gone")
        broken.touch()
    else:
        broken.unlink()
        broken.mkdir()
    target = reference.folder / "second"
    code, _, said = reference.mover.copy(reference.uri, f"{target}/", "--cache", str(reference.cache))
    if code == 1:
        assert "Cannot use" in said, "refused before anything was done"
    else:
        assert (code, _read(target)) == (0, reference.objects), said
