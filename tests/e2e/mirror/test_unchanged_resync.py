"""What the same command again requests for objects that have not changed, and that it finds those that have."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from support.mover import Mover
from support.proxy import Proxy
from support.servers import S3Server
from support.trees import settle
from support.waiting import eventually

FILES: Final = 200
LISTINGS: Final = {"HeadBucket", "ListObjectsV2"}
WAYS: Final = ("up", "down", "between")


@dataclass(frozen=True)
class Pair:
    """A source and a target of 200 small objects, either of which may be a folder; S3 is reached through a proxy."""

    server: S3Server
    proxy: Proxy
    mover: Mover
    bucket: str
    folder: Path
    way: str

    @property
    def source(self) -> str:
        return f"{self.folder}/run/" if self.way == "up" else f"s3://{self.bucket}/run/"

    @property
    def target(self) -> str:
        return f"{self.folder}/in/" if self.way == "down" else f"s3://{self.bucket}/in/"

    @property
    def s3(self) -> Any:
        return self.server.client(self.server.user)

    def write(self, side: str, name: str, body: bytes) -> None:
        """Write an object of a side: ``run`` or ``in``."""
        if (side, self.way) in (("run", "up"), ("in", "down")):
            path = self.folder / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            settle(path)
        else:
            self.s3.put_object(Bucket=self.bucket, Key=f"{side}/{name}", Body=body)

    def read(self, name: str) -> bytes:
        if self.way == "down":
            return (self.folder / "in" / name).read_bytes()
        return self.s3.get_object(Bucket=self.bucket, Key=f"in/{name}")["Body"].read()

    def fill(self, *sides: str) -> None:
        for side in sides:
            for number in range(FILES):
                self.write(side, name(number), f"content {number:03d}".encode())

    def settle(self) -> None:
        """Wait until nothing that was written so far can be confused with what is written from now on."""
        until = time.time() + 2.5
        eventually(lambda: time.time() > until, what="the next times of files and objects")

    def copy(self, *options: str) -> tuple[dict[str, Any], Counter[str]]:
        """The summary of the command, and its requests by operation."""
        self.proxy.wait_idle()
        self.proxy.clear_log()
        code, summary, err = self.mover.copy(self.source, self.target, *options)
        assert code == 0, f"{summary}\n{err}"
        self.proxy.wait_idle()
        return summary, Counter(record.operation for record in self.proxy.log())

    def looked_up(self) -> set[str]:
        """Names of the objects that the last command made a request for."""
        keys = {record.key for record in self.proxy.log() if record.key is not None}
        return {key.partition("/")[2] for key in keys}


def name(number: int) -> str:
    return f"lane{number % 3}/{number:03d}.fq"


@pytest.fixture(params=WAYS)
def pair(
    request: pytest.FixtureRequest,
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    tmp_path: Path,
) -> Pair:
    return Pair(s3server, proxy, make_mover(proxy.server), make_bucket(s3server), tmp_path, request.param)


@pytest.mark.every_server
@pytest.mark.parametrize(("rule", "verified"), [("size", "size"), ("skip", "none")])
def test_sizes_and_presence_are_taken_from_listings(pair: Pair, rule: str, verified: str) -> None:
    pair.fill("run", "in")
    pair.write("in", name(7), b"of another size")
    pair.write("run", "new.fq", b"new")

    summary, requests = pair.copy("--if-exists", rule)

    copied = 1 if rule == "skip" else 2
    assert (summary["objects_done"], summary["objects_skipped"]) == (copied, FILES + 1 - copied)
    assert summary["verified"][verified] == FILES + 1 - copied
    assert requests["HeadObject"] <= 3 * copied
    assert requests["ListObjectsV2"] < 10
    assert pair.read("new.fq") == b"new"
    assert pair.read(name(7)) == (b"of another size" if rule == "skip" else b"content 007")

    again, requests = pair.copy("--if-exists", rule)

    assert again["objects_skipped"] == FILES + 1
    assert requests.keys() <= LISTINGS
    assert requests["ListObjectsV2"] < 10


@pytest.mark.every_server
def test_what_is_unchanged_since_an_earlier_transfer_is_not_looked_up(pair: Pair) -> None:
    pair.fill("run")
    pair.settle()
    assert pair.copy()[0]["objects_done"] == FILES

    for run in range(4):
        if run == 2:
            pair.settle()  # then the record of a transfer serves that found all of them unchanged
        again, requests = pair.copy()
        assert again["objects_skipped"] == FILES
        assert again["verified"].keys() <= {"etag", "checksum"}
        assert requests.keys() <= LISTINGS
        assert requests["ListObjectsV2"] < 10


@pytest.mark.every_server
@pytest.mark.parametrize("pair", ["up", "down"], indirect=True)
def test_what_was_too_recent_for_the_record_is_looked_up_once(pair: Pair) -> None:
    pair.fill("run")
    assert pair.copy()[0]["objects_done"] == FILES
    pair.settle()

    requests = [pair.copy()[1]]
    pair.settle()
    requests.append(pair.copy()[1])

    assert requests[0]["HeadObject"] >= 1
    assert requests[1].keys() <= LISTINGS


@pytest.mark.every_server
@pytest.mark.parametrize("pair", ["up", "down"], indirect=True)
def test_each_change_since_the_record_is_looked_up(pair: Pair) -> None:
    pair.fill("run")
    pair.settle()
    assert pair.copy()[0]["objects_done"] == FILES
    pair.settle()
    side, other = ("run", "in") if pair.way == "up" else ("in", "run")
    set_back, new, copied, rewritten = map(name, (3, 50, 100, 150))
    # A file of the same size, inode and mtime, and one that took the place of another.
    path = pair.folder / side / set_back
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"CONTENT")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_size) == (before.st_ino, before.st_size)
    beside = pair.folder / "beside"
    beside.write_bytes(b"CONTENT 050")
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    beside.replace(pair.folder / side / new)
    # An object that was replaced by its own bytes, and one that another wrote.
    key = f"{other}/{copied}"
    was = pair.s3.head_object(Bucket=pair.bucket, Key=key)
    pair.s3.put_object(Bucket=pair.bucket, Key=key, Body=b"content 100", Metadata=was["Metadata"])
    assert pair.s3.head_object(Bucket=pair.bucket, Key=key)["ETag"] == was["ETag"]
    pair.write(other, rewritten, b"CONTENT 150")

    summary, requests = pair.copy()

    assert pair.looked_up() == {set_back, new, copied, rewritten}
    assert requests["ListObjectsV2"] < 10
    assert summary["objects_done"] + summary["objects_skipped"] == FILES
    # Up, the file counts; down, the object.
    assert pair.read(new) == (b"CONTENT 050" if pair.way == "up" else b"content 050")
    assert pair.read(rewritten) == (b"content 150" if pair.way == "up" else b"CONTENT 150")
    assert pair.read(copied) == b"content 100"


@pytest.mark.every_server
@pytest.mark.parametrize("pair", ["between"], indirect=True)
def test_objects_with_other_etags_are_looked_up_again_only_if_their_copies_were_not_verified(pair: Pair) -> None:
    """Their copies are made of parts, and they are not."""
    body = os.urandom(6 << 20)
    for number in range(3):
        pair.write("run", name(number), body)
    pair.settle()
    options = ("--part-size", "5MiB", "--copy-threshold", "5MiB")
    first, _ = pair.copy(*options)
    assert first["objects_done"] == 3
    listed = pair.s3.list_objects_v2(Bucket=pair.bucket)["Contents"]
    assert len({each["ETag"] for each in listed}) == 2

    again, requests = pair.copy(*options)

    if "size" in first["verified"]:  # the service states nothing that verifies copied parts
        assert requests["HeadObject"] >= 3
        return
    assert again["verified"] == first["verified"]
    assert requests.keys() <= LISTINGS
    pair.settle()
    pair.write("in", name(1), body[::-1])
    third, requests = pair.copy(*options)
    assert (third["objects_done"], third["objects_skipped"]) == (1, 2)
    assert pair.looked_up() == {name(1)}
    assert pair.read(name(1)) == body


@pytest.mark.every_server
@pytest.mark.parametrize("pair", ["up"], indirect=True)
def test_the_record_of_another_request_does_not_count(pair: Pair) -> None:
    pair.fill("run")
    pair.settle()
    first, _ = pair.copy()
    assert first["objects_done"] == FILES

    other, requests = pair.copy("--storage-class", "STANDARD")

    assert other["objects_skipped"] == FILES
    assert requests["HeadObject"] >= FILES
