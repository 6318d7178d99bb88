"""A worker that is killed again and again while it packs: one archive in the end, and no finished part sent twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from packed import by_python, fill, sha256, stored

from support.buckets import open_uploads
from support.mover import MIB, Mover
from support.proxy import Proxy, Record, hold
from support.servers import S3Server
from support.trees import settle
from support.waiting import eventually

KILLS = 6
WRITES = ("CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")


def _unit(record: Record) -> tuple[str, str | None, int | None]:
    return record.operation, record.upload_id, record.part_number


@pytest.mark.timeout(600)
def test_killed_again_and_again_the_archive_is_made_once(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
) -> None:
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    contents = {f"{n:02}.bin": rng.randbytes(size) for n, size in enumerate([MIB] * 30 + [23 * MIB, 40 * MIB])}
    fill(s3server, bucket, "run/", contents)
    mover = make_mover(proxy.server)
    started = mover.start("pack", f"s3://{bucket}/run/", f"s3://{bucket}/out.tar", "--part-size", "10MiB", "--detach")
    assert started.wait() == 0, str(started)
    transfer_id = started.stdout.strip()

    in_flight: Counter[object] = Counter()
    for kill in range(KILLS):
        # The world stops at a random write, before or after it was carried out, so that the kill lands there.
        rule = proxy.rule(WRITES, hold(rng.choice(["request", "reply"])), after=rng.randrange(3))
        worker = mover.start("worker", "--max-requests", str(rng.choice([1, 2, 4])))
        if not mover.is_held(proxy, rule, transfer_id):
            # Fewer writes were left than the kill was to wait for.
            assert kill, "nothing was killed"
            worker.kill()
            proxy.remove_rule(rule)
            break
        in_flight.update(_unit(record) for record in proxy.in_flight() if record.operation in WRITES)
        worker.kill()
        proxy.remove_rule(rule)
        proxy.wait_idle()
        if mover.status(transfer_id).ended:
            break
    with mover.start("resume", transfer_id) as last:
        assert last.wait(120) == 0, str(last)

    status = mover.status(transfer_id)
    assert (status.state, status.totals.done, status.totals.failed) == ("done", len(contents), 0)
    archive = stored(s3server, bucket, "out.tar")
    assert by_python(archive) == contents
    assert open_uploads(s3server, bucket) == []
    done = Counter(_unit(r) for r in proxy.log() if r.operation in WRITES[1:] and r.took_effect)
    twice = {unit: times for unit, times in done.items() if times > 1 + in_flight[unit]}
    assert not twice, f"done more often than kills explain: {twice}"
    code, _, err = make_mover(s3server).copy(f"s3://{bucket}/run/", f"s3://{bucket}/again.tar", verb="pack")
    assert code == 0, err
    assert sha256(stored(s3server, bucket, "again.tar")) == sha256(archive)


def test_a_member_that_changes_meanwhile_is_packed_as_it_is_then(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    contents = {f"{n}.bin": rng.randbytes(100_000) for n in range(5)}
    fill(s3server, bucket, "run/", contents)
    mover = make_mover(proxy.server)
    rule = proxy.rule(("CreateMultipartUpload",), hold("request"))
    running = mover.start("pack", f"s3://{bucket}/run/", f"s3://{bucket}/x.tar", "--json")
    proxy.wait_held(rule, deadline=60)
    contents["3.bin"] = rng.randbytes(50_000)
    fill(s3server, bucket, "run/", {"3.bin": contents["3.bin"]})

    proxy.remove_rule(rule)

    assert running.wait(60) == 0, str(running)
    assert by_python(stored(s3server, bucket, "x.tar")) == contents
    assert open_uploads(s3server, bucket) == []


def test_killed_while_it_packs_on_this_machine_it_goes_on(
    versitygw: S3Server, make_mover: Callable[[S3Server], Mover], rng: random.Random, tmp_path: Path
) -> None:
    contents = {f"d{n % 3}/{n:02}.bin": rng.randbytes(size) for n, size in enumerate([700_000] * 40 + [23 * MIB])}
    for name, data in contents.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        settle(path)
    mover, out = make_mover(versitygw), tmp_path / "out"
    target = out / "run.tar"
    started = mover.start("pack", f"{tmp_path}/run", str(target), "--part-size", "5MiB", "--detach")
    assert started.wait() == 0, str(started)
    transfer_id = started.stdout.strip()

    for _ in range(2):
        # So slow that it cannot be done before it is killed, with parts on the disk.
        worker = mover.start("worker", "--max-bandwidth", "4MiB")
        eventually(
            lambda: any(map(_holds_part, out.glob(".*.parts"))), what="a part of the archive on the disk", deadline=120
        )
        worker.kill()
        assert not target.exists()
        assert not (out / "run.tar.sfidx").exists()
    with mover.start("resume", transfer_id) as last:
        assert last.wait(120) == 0, str(last)

    assert sorted(path.name for path in out.iterdir()) == ["run.tar", "run.tar.sfidx"]
    assert by_python(target.read_bytes()) == contents
    code, _, err = mover.copy(f"{tmp_path}/run", f"{tmp_path}/again.tar", verb="pack")
    assert code == 0, err
    assert sha256((tmp_path / "again.tar").read_bytes()) == sha256(target.read_bytes())


def _holds_part(record: Path) -> bool:
    """Whether the record of an unfinished file names a part."""
    return b"\npart " in record.read_bytes()
