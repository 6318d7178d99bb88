"""Another version and this one at the same records: one goes on where the other was killed, both run, one comes back.

Run by hand, with a commit to compare with: ``make upgrade-matrix BASE=HEAD~20``. It builds that commit, in minutes,
unless OTHER names the command of another version that is installed somewhere.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import builds
from seqferry.db.migrate import oldest_reader
from support.buckets import Shape, assert_same, fill, keys, open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.processes import RunningProcess
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.timeout(3600)  # the build is in the time of the first one
_ROOT = Path(__file__).parents[3]
_WRITES = ("CopyObject", "CompleteMultipartUpload")
_SMALL = 60


@pytest.fixture(scope="session")
def other_command() -> Iterator[Path]:
    """The command that OTHER names, or of the commit that BASE names."""
    if other := os.environ.get("OTHER"):
        yield Path(other)
        return
    with builds.built(builds.find(_ROOT, os.environ["BASE"]), _ROOT / ".tools" / "previous") as built:
        yield Path(built.environment["SEQFERRY_COMMAND"])


@dataclass
class _Versions:
    """This version and the other one at one database, and two buckets with a proxy before them."""

    other: Mover
    this: Mover
    server: S3Server
    proxy: Proxy
    source: str
    target: str
    other_can_come_back: bool
    """The other one can use a database that this one has brought up to date."""

    def submit(self, by: Mover, name: str) -> str:
        return by.submit(f"s3://{self.source}/", f"s3://{self.target}/{name}/", *SMALL_PARTS)

    def killed_half_way(self, by: Mover, transfer_id: str) -> set[str]:
        """Run a worker of this version and kill it within the transfer; returns the keys that are on record as done."""
        rule = self.proxy.rule("CopyObject", hold(), after=30, times=3)
        large = self.proxy.rule("UploadPartCopy", hold(), after=2)
        worker = by.start("worker", "--max-requests", "8")
        self.proxy.wait_held(rule, 3)
        self.proxy.wait_held(large)
        eventually(lambda: len(self.done(transfer_id)) >= 10, what="10 objects on record")
        worker.kill()
        for each in (rule, large):
            self.proxy.remove_rule(each)
        self.proxy.wait_idle()
        return self.done(transfer_id)

    def done(self, transfer_id: str) -> set[str]:
        # Without a look at its version: the records are read as they are.
        return {record.target_key for record in self.this.objects(transfer_id, "done")}

    def assert_whole(self, name: str) -> None:
        assert_same(self.server, self.source, self.target, target_prefix=f"{name}/")
        assert open_uploads(self.server, self.target) == []

    def assert_not_repeated(self, recorded: set[str], since: int) -> None:
        written = {record.key for record in self.proxy.log(after=since) if record.operation in _WRITES}
        assert not recorded & written, "what was on record is not written again"


@pytest.fixture(params=["sqlite", "postgres"])
def versions(
    request: pytest.FixtureRequest,
    other_command: Path,
    seaweedfs: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    rng: random.Random,
    tmp_path: Path,
) -> Iterator[_Versions]:
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    for prefix, objects, size in (("a/", 2, 21 * MIB), ("m/", _SMALL, MIB)):
        fill(seaweedfs, source, rng, Shape(objects=objects, sizes=[size], odd=False, prefix=prefix))
    proxy = make_proxy(seaweedfs)
    # Not a folder that this version has prepared: the other one makes its tables itself.
    environment = {"SEQFERRY_AUDIT_KEY": str(tmp_path / "audit.key")}
    if request.param == "postgres":
        environment["SEQFERRY_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    head = subprocess.run(
        [other_command.with_name("python"), "-P", "-c", "from seqferry.db.migrate import HEAD; print(HEAD)"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    with ExitStack() as held:
        other = held.enter_context(Mover(proxy.server, tmp_path / "state", environment, command=other_command))
        this = held.enter_context(Mover(proxy.server, tmp_path / "state", environment))
        yield _Versions(other, this, seaweedfs, proxy, source, target, head >= oldest_reader())


def test_this_version_goes_on_where_the_other_was_killed(versions: _Versions) -> None:
    transfer_id = versions.submit(versions.other, "copy")
    recorded = versions.killed_half_way(versions.other, transfer_id)
    since = _last(versions.proxy)

    _resume(versions.this, transfer_id)

    versions.assert_whole("copy")
    versions.assert_not_repeated(recorded, since)


def test_the_other_goes_on_where_this_version_was_killed_or_refuses_in_one_line(versions: _Versions) -> None:
    assert versions.other.start("status").wait() == 0, "it makes the tables"
    transfer_id = versions.submit(versions.this, "copy")
    recorded = versions.killed_half_way(versions.this, transfer_id)
    since = _last(versions.proxy)
    if not versions.other_can_come_back:
        refused = versions.other.start("resume", transfer_id)
        assert (refused.wait(), refused.stderr.count("\n")) == (1, 1), str(refused)
        assert "newer version of seqferry" in refused.stderr
        _resume(versions.this, transfer_id)
    else:
        _resume(versions.other, transfer_id)

    versions.assert_whole("copy")
    versions.assert_not_repeated(recorded, since)


def test_both_run_and_the_older_outlives_the_newer(versions: _Versions) -> None:
    if not versions.other_can_come_back:
        pytest.skip("this version takes something away that the other one needs: the documents say to stop all")
    is_shared = "SEQFERRY_DATABASE_URL" in versions.this.env
    older = versions.other.start("worker", "--max-requests", "8")
    first = versions.submit(versions.other, "first")
    rule = versions.proxy.rule("CopyObject", hold(), after=30)
    versions.proxy.wait_held(rule)

    # This version changes the tables under the other one's work.
    newer = _ready(versions.this.start("worker", "--state-dir", f"{versions.this.state}-2")) if is_shared else None
    second = versions.submit(versions.this, "second")
    versions.proxy.remove_rule(rule)
    for transfer_id in (first, second):
        eventually(lambda one=transfer_id: versions.this.status(one).ended, what="the end", deadline=120)
    if newer is not None:
        newer.kill()
    third = versions.submit(versions.this, "third")
    eventually(lambda: versions.this.status(third).ended, what="the end by the older one alone", deadline=120)

    assert older.running, str(older)
    for name in ("first", "second", "third"):
        versions.assert_whole(name)
    for process in (older, newer):
        assert process is None or "Traceback" not in process.stderr, process.stderr
    for mover in (versions.other, versions.this):
        with mover.start("status", first) as told, mover.start("audit", "verify") as audit:
            assert told.wait() == 0, str(told)
            assert audit.wait() == 0, str(audit)
    assert len(keys(versions.server, versions.target)) == 3 * (_SMALL + 2)


def _ready(worker: RunningProcess) -> RunningProcess:
    eventually(lambda: "is ready" in worker.stderr, what="the worker")
    return worker


def _resume(mover: Mover, transfer_id: str) -> None:
    with mover.start("resume", transfer_id) as running:
        assert running.wait(300) == 0, str(running)


def _last(proxy: Proxy) -> int:
    return max(record.number for record in proxy.log())
