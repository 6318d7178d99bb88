"""The drill of docs/operate/operations.md: a backup while a worker runs, a disaster, and what is restored goes on."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.buckets import Shape, assert_same, fill, keys, open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually

_SMALL = 40
_WRITES = ("CopyObject", "CompleteMultipartUpload")


@dataclass(frozen=True)
class _Database:
    """The database of a mover, as an operator backs it up."""

    state: Path
    url: str | None
    copy: Path

    def back_up(self) -> None:
        if self.url is None:
            _run("sqlite3", str(self._file), f".backup {self.copy}")
        else:
            _run("pg_dump", "--format=custom", f"--file={self.copy}", self.url)

    def destroy(self) -> None:
        if self.url is None:
            for file in self.state.glob("seqferry.sqlite*"):
                file.unlink()
        else:
            _run("psql", "--quiet", "--command", "drop schema public cascade; drop schema dbos cascade", self.url)
            _run("psql", "--quiet", "--command", "create schema public", self.url)

    def restore(self) -> None:
        if self.url is None:
            self._file.write_bytes(self.copy.read_bytes())
            for name in ("wal", "shm"):
                self._file.with_name(f"{self._file.name}-{name}").unlink(missing_ok=True)
        else:
            _run("pg_restore", "--clean", "--if-exists", "--dbname", self.url, str(self.copy))

    @property
    def _file(self) -> Path:
        return self.state / "seqferry.sqlite"


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_is_restored_from_a_backup_goes_on_and_copies_nothing_twice(
    kind: str,
    request: pytest.FixtureRequest,
    seaweedfs: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    for prefix, objects, size in (("a/", 1, 21 * MIB), ("m/", _SMALL, MIB), ("z/", 1, 26 * MIB)):
        fill(seaweedfs, source, rng, Shape(objects=objects, sizes=[size], odd=False, prefix=prefix))
    [first], [last] = keys(seaweedfs, source, "a/"), keys(seaweedfs, source, "z/")
    proxy = make_proxy(seaweedfs)
    mover = make_mover(proxy.server)
    if url is not None:
        mover.env["SEQFERRY_DATABASE_URL"] = url
    database = _Database(mover.state, url, tmp_path / "backup")
    worker = mover.start("worker", "--max-requests", "8")
    # A first copy by parts shows whether the service keeps their checksums; until then objects do so in turn.
    trial = mover.submit(f"s3://{source}/{first}", f"s3://{target}/trial", *SMALL_PARTS)
    eventually(lambda: mover.status(trial).state == "done", what="the first copy by parts")
    # The backup falls into the parts of the first object, the disaster into those of the last one.
    early = proxy.rule("UploadPartCopy", hold(), key=f"copy/{first}", after=2)
    middle = proxy.rule("CopyObject", hold(), after=20, times=3)
    unbegun = proxy.rule("CreateMultipartUpload", hold(), key=f"copy/{last}")
    late = proxy.rule("UploadPartCopy", hold(), key=f"copy/{last}", after=2)
    transfer_id = mover.submit(f"s3://{source}/", f"s3://{target}/copy/", *SMALL_PARTS)
    proxy.wait_held(early)
    proxy.wait_held(middle, 3)
    eventually(lambda: len(_done(mover, transfer_id)) >= 10, what="10 objects on record")

    recorded = _done(mover, transfer_id)
    database.back_up()
    for rule in (early, middle, unbegun):
        proxy.remove_rule(rule)
    proxy.wait_held(late)
    eventually(lambda: len(keys(seaweedfs, target, "copy/")) == _SMALL + 1, what="all but the last")
    arrived = set(keys(seaweedfs, target, "copy/"))
    worker.kill()
    proxy.remove_rule(late)
    proxy.wait_idle()
    assert [key for key, _ in open_uploads(seaweedfs, target)] == [f"copy/{last}"], "begun since the backup"
    database.destroy()
    since = max(record.number for record in proxy.log())
    database.restore()
    # Servers date uploads by whole seconds, and all of this may fall into one.
    restored_at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat(timespec="seconds")

    with mover.start("resume", transfer_id) as again:
        assert again.wait(300) == 0, str(again)

    status = mover.status(transfer_id)
    assert (status.state, status.totals.done) == ("done", _SMALL + 2), status
    assert_same(seaweedfs, source, target, target_prefix="copy/")
    with mover.start("cleanup", f"s3://{target}/copy/", "--older-than", restored_at, "--yes") as cleanup:
        assert cleanup.wait(60) == 0, str(cleanup)
    assert open_uploads(seaweedfs, target) == []
    written = Counter(record.key for record in proxy.log(after=since) if record.operation in _WRITES)
    assert not recorded & set(written), "what was on record in the backup is not written again"
    assert not arrived & set(written), "what had arrived since the backup is found, and not written again"
    with mover.start("audit", "verify") as audit:
        assert audit.wait(60) == 0, str(audit)


def _done(mover: Mover, transfer_id: str) -> set[str]:
    return {record.target_key for record in mover.objects(transfer_id, "done")}
