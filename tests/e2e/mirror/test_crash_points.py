"""Each named crash point: a process ends there once, the next one goes on, and what has to hold holds.

Points of one transfer share it: each process goes on where the one before has ended, and ends at the next point.
A point that is never reached fails its test, by name. See ``seqferry.engine.crash_points``.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from seqferry.engine import crash_points
from seqferry.service.service import Service
from support.buckets import open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server
from support.trees import settle
from support.waiting import eventually

_ENDED_BY: Final = {-signal.SIGKILL, -signal.SIGABRT}
_BIG: Final = "big"


@dataclass
class Stage:
    """A bucket and a mover."""

    server: S3Server
    bucket: str
    mover: Mover
    folder: Path
    sent: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def source(self) -> str:
        return f"s3://{self.bucket}/run/"

    @property
    def target(self) -> str:
        return f"s3://{self.bucket}/in/"

    def put(self, prefix: str, contents: Mapping[str, bytes]) -> None:
        for name, body in contents.items():
            self.server.client().put_object(Bucket=self.bucket, Key=prefix + name, Body=body)

    def found(self, prefix: str) -> dict[str, bytes]:
        client = self.server.client()
        listed = client.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        read = {one["Key"]: client.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read() for one in listed}
        return {key.removeprefix(prefix): body for key, body in read.items()}

    def crashes(self, points: Sequence[str], *words: str) -> None:
        """Run a command again for each point, at which it ends."""
        for point in points:
            self._crash(point, words)

    def _crash(self, point: str, words: Sequence[str]) -> None:
        self.mover.env = {crash_points.VARIABLE: point}
        running = self.mover.start(*words)
        self.mover.env = {}
        try:
            status = running.wait(60)
        except TimeoutError as late:
            raise AssertionError(f"{point} was never reached: {late}") from None
        assert status in _ENDED_BY, f"{point} was never reached: {running}"

    def goes_on(self, transfer_id: str, *, expect: int = 0) -> None:
        running = self.mover.start("resume", transfer_id)
        assert running.wait(120) == expect, running

    def rows(self, statement: str) -> list[Any]:
        with Service.open(self.mover.settings()) as service, service.database.read() as connection:
            return list(connection.execute(sa.text(statement)).all())


@pytest.fixture
def stage(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> Stage:
    found = Stage(seaweedfs, make_bucket(seaweedfs), make_mover(seaweedfs), tmp_path / "files")
    found.sent = {f"s{number}": rng.randbytes(number * 7) for number in range(4)} | {_BIG: rng.randbytes(11 * MIB)}
    return found


def _copy(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    transfer_id = stage.mover.submit(stage.source, stage.target, *SMALL_PARTS)
    stage.crashes(points, "worker")
    stage.goes_on(transfer_id)
    assert stage.found("in/") == stage.sent
    return transfer_id


def _submit(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    words = ("cp", stage.source, stage.target, *SMALL_PARTS)
    for point in points:
        stage.crashes([point], *words, "--detach")
        recorded = stage.rows("select id from transfer")
        assert len(recorded) == (1 if point.startswith("after") else 0), point
    running = stage.mover.start(*words)
    assert running.wait(120) == 0, running
    [(transfer_id,)] = stage.rows("select id from transfer")
    assert stage.found("in/") == stage.sent
    return transfer_id


def _move(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    running = stage.mover.start("mv", stage.source, stage.target, *SMALL_PARTS, "--detach")
    assert running.wait() == 0, running
    transfer_id = running.stdout.strip()
    stage.crashes(points, "worker")
    assert stage.found("in/") | stage.found("run/") == stage.sent
    stage.goes_on(transfer_id)
    assert stage.found("in/") == stage.sent
    assert stage.found("run/") == {}
    return transfer_id


def _sync(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    stage.put("in/", {"extra1": b"1", "extra2": b"2"})
    running = stage.mover.start("sync", stage.source, stage.target, *SMALL_PARTS, "--delete", "--detach")
    assert running.wait() == 0, running
    transfer_id = running.stdout.strip()
    stage.crashes(points, "worker")
    stage.goes_on(transfer_id)
    assert stage.found("in/") == stage.sent
    return transfer_id


def _remove(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    stage.put("in/", {"kept": b"kept"})
    running = stage.mover.start("rm", "--recursive", stage.source, "--detach")
    assert running.wait() == 0, running
    transfer_id = running.stdout.strip()
    stage.crashes(points, "worker")
    stage.goes_on(transfer_id)
    assert stage.found("run/") == {}
    assert stage.found("in/") == {"kept": b"kept"}
    return transfer_id


def _upload(stage: Stage, points: Sequence[str]) -> str:
    stage.folder.mkdir()
    for name, body in stage.sent.items():
        (stage.folder / name).write_bytes(body)
        settle(stage.folder / name)
    transfer_id = stage.mover.submit(f"{stage.folder}/", stage.target, *SMALL_PARTS)
    stage.crashes(points, "worker")
    stage.goes_on(transfer_id)
    assert stage.found("in/") == stage.sent
    return transfer_id


def _cancel(stage: Stage, points: Sequence[str]) -> str:
    """What a killed worker left open is aborted after a cancel."""
    stage.put("run/", stage.sent)
    transfer_id = stage.mover.submit(stage.source, stage.target, *SMALL_PARTS)
    stage.crashes(["after-UploadPartCopy"], "worker")
    assert len(open_uploads(stage.server, stage.bucket)) == 1
    stage.crashes(points, "cancel", transfer_id)  # works itself, since no worker is there
    with stage.mover.start("worker"):
        eventually(lambda: stage.mover.status(transfer_id).ended, what="the end", deadline=60)
    assert stage.mover.status(transfer_id).state == "cancelled"
    arrived = stage.found("in/")
    assert arrived == {name: stage.sent[name] for name in arrived}
    assert _BIG not in arrived
    return transfer_id


def _schedule(stage: Stage, points: Sequence[str]) -> str:
    stage.put("run/", stage.sent)
    running = stage.mover.start("schedule", "add", "* * * * * *", "sync", stage.source, stage.target, *SMALL_PARTS)
    assert running.wait() == 0, running
    stage.crashes(points, "worker")
    with stage.mover.start("worker"):
        eventually(lambda: stage.found("in/") == stage.sent, what="what the schedule copies", deadline=60, every=0.5)
    submitted = stage.rows("select transfer_id from schedule_run where outcome in ('submitted', 'waiting')")
    transfers = stage.rows("select id from transfer")
    assert sorted(submitted) == sorted(transfers), "each run has one transfer, and each transfer is of one run"
    return ""


_TABLE: Final[dict[str, tuple[Callable[[Stage, Sequence[str]], str], tuple[str, ...]]]] = {
    "submission": (_submit, ("before-submission-recorded", "after-submission-recorded")),
    "plan": (
        _copy,
        (
            "after-plan-begun",
            "before-batches-recorded",
            "before-plan-ended",
            "after-batches-recorded",
        ),
    ),
    # The last batches are recorded with the end of planning: a process after those does not plan again.
    "plan, end": (_copy, ("after-plan-ended",)),
    "requests": (
        _copy,
        (
            "after-batch-begun",
            "before-CopyObject",
            "after-CopyObject",
            "before-CreateMultipartUpload",
            "after-CreateMultipartUpload",
            "before-upload-recorded",
            "after-upload-recorded",
            "before-UploadPartCopy",
            "after-UploadPartCopy",
            "before-CompleteMultipartUpload",
            "after-CompleteMultipartUpload",
        ),
    ),
    "results": (
        _copy,
        (
            "before-results-recorded",
            "after-results-recorded",
            "before-batch-ended",
            "after-batch-ended",
            "before-transfer-ended",
            "after-transfer-ended",
        ),
    ),
    "move": (
        _move,
        (
            "before-sources-recorded",
            "after-sources-recorded",
            "before-DeleteObject",
            "after-DeleteObject",
            "after-sources-removed",
        ),
    ),
    "sync": (_sync, ("before-extras-recorded", "after-extras-recorded", "after-extras-removed")),
    # The process that goes on removes one by one what may be gone: a transfer reaches one of the two.
    "removal, before": (_remove, ("before-DeleteObjects",)),
    "removal, after": (_remove, ("after-DeleteObjects",)),
    "upload": (_upload, ("before-PutObject", "after-PutObject", "before-UploadPart", "after-UploadPart")),
    "cancel": (
        _cancel,
        (
            "before-given-up-aborted",
            "before-AbortMultipartUpload",
            "after-AbortMultipartUpload",
            "after-given-up-aborted",
        ),
    ),
    "schedule": (_schedule, ("before-schedule-run-recorded", "after-schedule-run-recorded")),
}


def test_every_point_is_visited() -> None:
    visited = [point for _, points in _TABLE.values() for point in points]
    assert sorted(visited) == sorted(crash_points.POINTS | crash_points.REQUESTS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", _TABLE)
def test_a_process_that_ends_at_a_point_costs_nothing(stage: Stage, scenario: str) -> None:
    play, points = _TABLE[scenario]

    transfer_id = play(stage, points)

    assert open_uploads(stage.server, stage.bucket) == []
    unended = "select 1 from batch b join transfer t on t.id = b.transfer_id where b.state <> 'ended'"
    assert stage.rows(f"{unended} and t.ended_at is not null") == []
    if transfer_id:
        assert stage.mover.status(transfer_id).totals.failed == 0
    sums = "sum(case when o.state = 'done' then 1 else 0 end) as done, count(*) as objects"
    wrong = stage.rows(
        f"select b.number from batch b join (select transfer_id, batch_number, {sums} from object o group by 1, 2) s"
        " on s.transfer_id = b.transfer_id and s.batch_number = b.number"
        " where b.objects <> s.objects or b.done <> s.done"
    )
    assert wrong == [], "counters are those of rows"
    checked = stage.mover.start("audit", "verify")
    assert checked.wait() == 0, checked
