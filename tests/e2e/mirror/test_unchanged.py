"""What the same command again requests for objects that have not changed, and that it finds those that have."""

from __future__ import annotations

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

    again, requests = pair.copy()

    assert again["objects_skipped"] == FILES
    assert requests.keys() <= LISTINGS
    print(again, requests)
    pair.settle()
    for _ in range(2):
        again, requests = pair.copy()
        print(again, requests)
        assert again["objects_skipped"] == FILES
        assert requests.keys() <= LISTINGS
