"""Each crash point of a share that is written: its process ends there once, the next one goes on, nothing is lost.

A point that is never reached fails its test. See ``seqferry.engine.crash_points``.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import support
from seqferry.engine import crash_points
from support.buckets import MIB, file_keys, open_uploads
from support.gateways import ServedInstrument, need_libnfs, read
from support.processes import run, seqferry
from support.servers import S3Server
from support.waiting import eventually

_ROOT: Final = Path(__file__).parents[3]
_QUIET: Final = 0.15
_CALLS: Final = ("rename:old:renamed", "remove:gone", "rename:folder:moved")
_REQUESTS: Final = (
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "PutObject",
    "UploadPart",
)
# Records of the journal are made by each step: amid the calls of clients, and by uploads. The first requests of a kind
# are those of the question whether the service keeps conditions.
_VISITS: Final = {
    "before-journal-written": (2, 9),
    "after-journal-written": (3, 10),
    "after-journal-synced": (4, 11),
    "before-data-written": (1, 6),
    # The first one is created and aborted before the share is served.
    "before-CreateMultipartUpload": (2,),
    "after-CreateMultipartUpload": (2,),
    # The first one is the claim of the share, made before it is served.
    "before-PutObject": (2, 4),
    "after-PutObject": (2, 4),
    "before-UploadPart": (1, 2),
}
_NAMES: Final = sorted(
    crash_points.SHARES | {f"{when}-{request}" for request in _REQUESTS for when in ("before", "after")}
)
_TABLE: Final = [f"{name}:{visit}" for name in _NAMES for visit in _VISITS.get(name, (1,))]
# Gateways of one test run side by side: most of their time is waiting for files to settle.
_AT_ONCE: Final = 4
_GROUPS: Final = [_TABLE[start : start + 2 * _AT_ONCE] for start in range(0, len(_TABLE), 2 * _AT_ONCE)]


@dataclass
class _Stage:
    """A gateway that ends at a point, its clients and its part of a bucket."""

    point: str
    server: S3Server
    bucket: str
    folder: Path
    files: dict[str, bytes]

    @property
    def prefix(self) -> str:
        return self.point.replace(":", "-") + "/"

    def expected(self) -> dict[str, bytes]:
        return {**self.files, "renamed": b"old", "moved/below": b"below"}

    def run(self) -> None:
        client = self.server.client()
        for name, body in {"old": b"old", "gone": b"gone", "folder/below": b"below"}.items():
            client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=body)
        for name, body in self.files.items():
            (self.folder / name).write_bytes(body)
        shares = ServedInstrument(self.folder, self.server, self.bucket, self.prefix, quiet=_QUIET, crash_at=self.point)
        try:
            unacknowledged = self._killed(shares)
            shares.restart()
            # A client whose copy was cut off begins anew.
            anew = {f"remove:{name}" for name in self.files if name in unacknowledged}
            for wanted in (anew, unacknowledged):
                for command in self._commands(shares, wanted).values():
                    subprocess.run(command, check=True, timeout=60, capture_output=True)
            self._check(shares, unacknowledged)
        finally:
            shares.close()

    def _commands(self, shares: ServedInstrument, wanted: set[str]) -> dict[str, list[str | Path]]:
        """Clients by what they do: a copy by its name, the calls as one."""
        commands: dict[str, list[str | Path]] = {
            name: ["nfs-cp", self.folder / name, shares.url(f"runs/{name}", uid=0)] for name in self.files
        }
        calls = Path(support.__file__ or "").parent / "nfs_calls.py"
        left = [call for call in (*_CALLS, *(f"remove:{name}" for name in self.files)) if call in wanted]
        commands["calls"] = [sys.executable, "-I", calls, shares.url("runs", uid=0), *left]
        return {name: command for name, command in commands.items() if name in wanted or (name == "calls" and left)}

    def _killed(self, shares: ServedInstrument) -> set[str]:
        """Copies and calls that the gateway had not acknowledged when it ended at the point."""
        wanted = {*self.files, *_CALLS}
        clients = {
            name: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for name, command in self._commands(shares, wanted).items()
        }
        try:
            try:
                status = shares.process.wait(60)
            except TimeoutError as late:
                raise AssertionError(f"{self.point} was never reached: {late}") from None
            assert status == -signal.SIGABRT, f"{self.point} was never reached: {shares.process}"
            for name in self.files:
                if clients[name].poll() == 0:
                    wanted.remove(name)
        finally:
            for one in clients.values():
                one.kill()
            done = {name: one.communicate()[0].decode() for name, one in clients.items()}
        return wanted - set(done["calls"].splitlines())

    def _versions(self) -> dict[str, int]:
        """Versions of each file of the share."""
        listed = self.server.client().list_object_versions(Bucket=self.bucket, Prefix=self.prefix)
        keys = [version["Key"].removeprefix(self.prefix) for version in listed.get("Versions", [])]
        return {key: keys.count(key) for key in self.expected()}

    def _keys(self) -> set[str]:
        """Objects of the share, without markers of folders."""
        return {key.removeprefix(self.prefix) for key in file_keys(self.server, self.bucket, self.prefix)}

    def _body(self, name: str) -> bytes:
        return self.server.client().get_object(Bucket=self.bucket, Key=self.prefix + name)["Body"].read()

    def _check(self, shares: ServedInstrument, unacknowledged: set[str]) -> None:
        expected = self.expected()
        for name, body in expected.items():
            assert read(shares, f"runs/{name}", uid=0) == body, f"{self.point}: {name} through the share"
        try:
            eventually(lambda: self._keys() == expected.keys(), what="all objects", deadline=60, every=0.2)
        except TimeoutError as late:
            command = [seqferry(), "gateway", "status", "--json", "--cache", self.folder / "gateway" / "cache"]
            status = run(command, expect=None).stdout
            text = f"{self.point}: the bucket has {sorted(self._keys())}; {shares.process}; {status}"
            raise AssertionError(text) from late
        assert [name for name, body in expected.items() if self._body(name) != body] == [], f"{self.point}: bytes"
        ours = (upload for upload in open_uploads(self.server, self.bucket) if upload[0].startswith(self.prefix))
        assert list(ours) == [], self.point
        # A file whose client had to begin anew may have settled between.
        versions = {name: count for name, count in self._versions().items() if name not in unacknowledged}
        assert versions == dict.fromkeys(versions, 1), self.point
        eventually(lambda: self._temporaries() == [], what=f"{self.point}: no data left, {self._temporaries()}")

    def _temporaries(self) -> list[str]:
        """Files of the cache that only hold what the bucket does not have, and those that are half made."""
        endings = {".data", ".unknown", ".new"}
        return [str(path) for path in (self.folder / "gateway/cache/writes").rglob("*") if path.suffix in endings]


@pytest.mark.parametrize("points", _GROUPS, ids=lambda points: points[0].replace(":", "-"))
def test_a_gateway_that_ends_at_a_point_loses_no_file_and_uploads_each_once(
    points: list[str], s3server: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    need_libnfs()
    bucket = make_bucket(s3server, versioned=True)
    files = {"small": rng.randbytes(4097), "large": rng.randbytes(9 * MIB + 77)}
    stages = [_Stage(point, s3server, bucket, tmp_path / point.replace(":", "-"), files) for point in points]
    for stage in stages:
        stage.folder.mkdir()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = [pool.submit(stage.run) for stage in stages]
    failures = {stage.point: one.exception() for stage, one in zip(stages, ended, strict=True)}
    failures = {point: failure for point, failure in failures.items() if failure is not None}
    if failures:
        raise ExceptionGroup(f"points {sorted(failures)}", list(failures.values()))


def test_each_point_of_a_share_is_one_of_the_code() -> None:
    reached = re.compile(r'crash_point::reach\(When::(Before|After), "([a-z-]+)"\)')
    texts = (path.read_text(encoding="utf-8") for path in (_ROOT / "crates/gateway/src").rglob("*.rs"))
    found = {f"{when.lower()}-{effect}" for text in texts for when, effect in reached.findall(text)}
    assert found == crash_points.SHARES | crash_points.PARTS | crash_points.CLAIMS | crash_points.EPOCHS
