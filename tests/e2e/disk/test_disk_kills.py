"""Workers that are killed again and again while they move files: all arrives, nothing finished is moved twice."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB, open_uploads
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, Record, hold
from support.servers import S3Server
from support.trees import assert_same_tree, fill

KILLS = 12
SIZES = [31 * MIB + n for n in range(3)] + [12 * MIB + n for n in range(6)] + [1000 + n for n in range(40)]
WRITES = ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")


Unit = tuple[str, str | None, str | None, str | None]


def _unit(record: Record) -> Unit:
    """What must not be moved twice: a range that is read, a part, an object written at once or put together."""
    part = None if record.part_number is None else str(record.part_number)
    return record.operation, record.key, record.upload_id, part or record.range


def _kill_again_and_again(
    proxy: Proxy, mover: Mover, transfer_id: str, operations: tuple[str, ...], rng: random.Random
) -> Counter[Unit]:
    """Kill workers while such requests are under way, then let one finish; returns what was in flight at the kills."""
    in_flight: Counter[Unit] = Counter()
    finished: set[str] = set()
    for kill in range(KILLS):
        # The world stops at a random request, before or after it was carried out, so that the kill lands there.
        rule = proxy.rule(operations, hold(rng.choice(["request", "reply"])), after=rng.randrange(1, 6))
        since = max((record.number for record in proxy.log()), default=0)
        worker = mover.start("worker", "--max-requests", str(rng.choice([1, 2, 4])))
        try:
            proxy.wait_held(rule, deadline=60)
        except TimeoutError as stuck:
            raise AssertionError(f"kill {kill}: {stuck}\n{mover.status(transfer_id)}\n{worker}") from None
        in_flight.update(_unit(record) for record in proxy.in_flight() if record.operation in operations)
        worker.kill()
        proxy.remove_rule(rule)
        proxy.wait_idle()
        again = [record for record in proxy.log(after=since) if record.operation in operations]
        assert not [record for record in again if record.key in finished], f"kill {kill}: moved again"
        finished |= {key for each in mover.objects(transfer_id, "done") for key in (each.source_key, each.target_key)}
        assert not mover.status(transfer_id).ended, f"all was done after {kill + 1} kills"
    with mover.start("resume", transfer_id) as last:
        assert last.wait(300) == 0, str(last)
    status = mover.status(transfer_id)
    assert (status.state, status.totals.failed, status.totals.cancelled) == ("done", 0, 0)
    return in_flight


def _moved_too_often(proxy: Proxy, operations: tuple[str, ...], in_flight: Counter[Unit]) -> dict[Unit, int]:
    done = Counter(_unit(record) for record in proxy.log() if record.operation in operations and record.took_effect)
    return {unit: times for unit, times in done.items() if times > 1 + in_flight[unit]}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_upload_killed_again_and_again_repeats_nothing_that_was_finished(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    fill(tmp_path / "run", rng, [f"lane{n % 3}/{n:03d}.fq" for n in range(len(SIZES))], SIZES)
    mover = make_mover(proxy.server)
    transfer_id = mover.submit(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS)

    in_flight = _kill_again_and_again(proxy, mover, transfer_id, WRITES, rng)

    twice = _moved_too_often(proxy, ("PutObject", "UploadPart", "CompleteMultipartUpload"), in_flight)
    assert not twice, f"written more often than kills explain: {twice}"
    assert open_uploads(s3server, bucket) == []
    code, summary, err = make_mover(s3server).copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
    assert code == 0, f"{summary}\n{err}"
    assert_same_tree(tmp_path / "run", tmp_path / "back")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_download_killed_again_and_again_leaves_whole_files_only(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    fill(tmp_path / "run", rng, [f"lane{n % 3}/{n:03d}.fq" for n in range(len(SIZES))], SIZES)
    code, _, err = make_mover(s3server).copy(f"{tmp_path}/run", f"s3://{bucket}/in/")
    assert code == 0, err
    mover = make_mover(proxy.server)
    transfer_id = mover.submit(f"s3://{bucket}/in/", f"{tmp_path}/back", *SMALL_PARTS)

    in_flight = _kill_again_and_again(proxy, mover, transfer_id, ("GetObject",), rng)

    # What was read and not yet on the disk when its worker was killed is read again: a part or two, never all of it.
    parts = {unit: times for unit, times in _moved_too_often(proxy, ("GetObject",), in_flight).items() if unit[3]}
    assert len(parts) <= 2 * KILLS, f"read more often than kills explain: {parts}"
    # Also no file of ours is left that holds half of one.
    assert_same_tree(tmp_path / "run", tmp_path / "back")


def test_a_file_that_was_rewritten_with_its_size_and_time_is_uploaded_anew_after_a_kill(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    file, content = tmp_path / "run.bam", rng.randbytes(31 * MIB)
    file.write_bytes(rng.randbytes(len(content)))
    found = file.stat()
    mover = make_mover(proxy.server)
    transfer_id = mover.submit(str(file), f"s3://{bucket}/run.bam", *SMALL_PARTS)
    rule = proxy.rule("UploadPart", hold("request"), after=3)
    worker = mover.start("worker", "--max-requests", "1")
    proxy.wait_held(rule, deadline=60)
    worker.kill()
    proxy.remove_rule(rule)
    proxy.wait_idle()
    with file.open("r+b") as rewritten:
        rewritten.write(content)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))

    with mover.start("resume", transfer_id) as last:
        assert last.wait(120) == 0, str(last)

    assert s3server.client().get_object(Bucket=bucket, Key="run.bam")["Body"].read() == content
    assert open_uploads(s3server, bucket) == []
