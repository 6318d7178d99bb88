"""A worker that is killed again and again: in the end all is there, and nothing that was finished was done twice.

What was done is counted by a recording proxy between the worker and the server.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from support.buckets import Shape, assert_same, fill, open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.proxy import Proxy, Record, hold
from support.servers import S3Server

KILLS = 20
SIZES = [31 * MIB + n for n in range(4)] + [12 * MIB + n for n in range(10)]
WRITES = ("CopyObject", "CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload")


def _unit(record: Record) -> tuple[str, str | None, str | None, int | None]:
    """What must not be done twice: an object copied at once, a part of an upload, an object put together."""
    return record.operation, record.key, record.upload_id if record.part_number else None, record.part_number


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_20_times_nothing_is_lost_leaked_or_repeated(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, rng, Shape(objects=80, sizes=SIZES, odd=False))
    proxy = make_proxy(s3server)
    mover = make_mover(proxy.server)
    transfer_id = mover.submit(f"s3://{source}/", f"s3://{target}/copy/", *SMALL_PARTS)

    finished: set[str] = set()
    in_flight_at_kills: Counter[object] = Counter()
    kills = 0
    for kill in range(KILLS):
        # The world stops at a random write, before or after it was done, so that the kill lands there for certain.
        # Few at a time, so that all the kills land before the end.
        rule = proxy.rule(WRITES, hold(rng.choice(["request", "reply"])), after=rng.randrange(1, 7))
        since = max((record.number for record in proxy.log()), default=0)
        worker = mover.start("worker", "--max-requests", str(rng.choice([1, 2, 4])))
        try:
            proxy.wait_held(rule, deadline=60)
        except TimeoutError as stuck:
            raise AssertionError(f"kill {kill}: {stuck}\n{mover.status(transfer_id)}\n{worker}") from None
        for record in proxy.in_flight():
            if record.operation in WRITES:
                in_flight_at_kills[_unit(record)] += 1
        worker.kill()
        kills += 1
        proxy.remove_rule(rule)
        proxy.wait_idle()
        repeated = [r for r in proxy.log(after=since) if r.operation in WRITES and r.key in finished]
        assert not repeated, f"kill {kill}: finished before, written again: {repeated}"
        finished |= {record.target_key for record in mover.objects(transfer_id, "done")}
        status = mover.status(transfer_id)
        assert not status.ended, f"all was done after {kills} kills: {status.totals}"

    since = max(record.number for record in proxy.log())
    with mover.start("resume", transfer_id) as last:
        assert last.wait(300) == 0, str(last)
    assert kills == KILLS
    assert not [r for r in proxy.log(after=since) if r.operation in WRITES and r.key in finished]

    status = mover.status(transfer_id)
    assert (status.state, status.totals.failed, status.totals.cancelled) == ("done", 0, 0)
    assert_same(s3server, source, target, target_prefix="copy/")
    assert open_uploads(s3server, target) == []
    done = Counter(_unit(record) for record in proxy.log() if record.operation in WRITES[2:] and record.took_effect)
    twice = {unit: times for unit, times in done.items() if times > 1 + in_flight_at_kills[unit]}
    assert not twice, f"done more often than kills explain: {twice}"
    copied = Counter(r.key for r in proxy.log("CopyObject") if r.took_effect)
    twice = {key: n for key, n in copied.items() if n > 1 + in_flight_at_kills["CopyObject", key, None, None]}
    assert not twice, f"copied more often than kills explain: {twice}"
