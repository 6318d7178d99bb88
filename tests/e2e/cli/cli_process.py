"""Running ``seqferry`` and reading what it says."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from support.processes import RunningProcess, seqferry
from support.servers import S3Server

MIB = 1024 * 1024
SLOW = ("--part-size", "5MiB", "--copy-threshold", "5MiB", "--max-requests", "1")
"""So that a copy of a few objects lasts long enough to be interrupted."""


@dataclass(frozen=True)
class CliResult:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The NDJSON on stdout; anything else there fails the test."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs ``seqferry`` with one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.command = seqferry()
        self.server: S3Server | None = None
        self._started = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def environment(self) -> dict[str, str]:
        ours = {"SEQFERRY_STATE_DIR": str(self.state)}
        return ours if self.server is None else {**ours, **self.server.environment()}

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> RunningProcess:
        environment = {**self.environment(), **(env or {})}
        running = RunningProcess([self.command, *arguments], environment=environment, is_preloaded=True)
        return self._started.enter_context(running)

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> CliResult:
        return ended(self.start(*arguments, env=env))

    def status(self, transfer_id: str) -> dict[str, Any]:
        ran = self.run("status", transfer_id, "--json")
        assert ran.code == 0, ran.err
        return ran.events[0]


def ended(running: RunningProcess) -> CliResult:
    code = running.wait()
    return CliResult(code, running.stdout, running.stderr)


def id_of(running: RunningProcess) -> str:
    """The id that ``cp`` prints at once."""
    running.wait_for_output("transfer ")
    found = re.match(r"transfer ([0-9a-f-]{36})\n", running.stderr)
    assert found, running.stderr
    return found[1]


@dataclass(frozen=True)
class Places:
    """A source and a target bucket on one server, or prefixes of one case in them."""

    server: S3Server
    source: str
    target: str
    case: str = ""

    def of_case(self, number: int) -> Places:
        """Prefixes of their own, for tests with many cases in two buckets."""
        return replace(self, case=f"{number}/")

    @property
    def uris(self) -> tuple[str, str]:
        return f"s3://{self.source}/run42/{self.case}", f"s3://{self.target}/archive/{self.case}"

    def words(self, line: str, **more: str) -> list[str]:
        """The words of a line, with the places for ``SRC`` and ``DST``, and ``more`` for its names."""
        for name, meant in {**more, "SRC": self.uris[0], "DST": self.uris[1]}.items():
            line = line.replace(name, meant)
        return line.split()

    @property
    def s3(self) -> Any:
        """A client of ``mover``, the owner of the buckets on both servers."""
        return self.server.client(self.server.user)

    def fill(self, keys: list[str]) -> dict[str, bytes]:
        """Small objects under ``run42/``; the one called ``empty`` is."""
        content = {key: b"" if key == "empty" else f"content of {key!r}".encode() for key in keys}
        for key, body in content.items():
            self.s3.put_object(Bucket=self.source, Key=f"run42/{self.case}{key}", Body=body)
        return content

    def fill_slow(self, objects: int, size: int) -> None:
        """Objects that take a while with the options ``SLOW``."""
        body = os.urandom(size)
        for number in range(objects):
            self.s3.put_object(Bucket=self.source, Key=f"run42/{number:02d}", Body=body)

    def arrived(self) -> dict[str, tuple[str, Any]]:
        """ETag and date of what is at the target, by name: a second copy would have another date."""
        prefix = f"archive/{self.case}"
        answer = self.s3.list_objects_v2(Bucket=self.target, Prefix=prefix)
        return {
            each["Key"].removeprefix(prefix): (each["ETag"], each["LastModified"])
            for each in answer.get("Contents", [])
        }

    def left(self) -> list[str]:
        """Names of the first page of what is at the source."""
        prefix = f"run42/{self.case}"
        answer = self.s3.list_objects_v2(Bucket=self.source, Prefix=prefix)
        return sorted(each["Key"].removeprefix(prefix) for each in answer.get("Contents", []))

    def content(self) -> dict[str, bytes]:
        return {
            name: self.s3.get_object(Bucket=self.target, Key=f"archive/{self.case}{name}")["Body"].read()
            for name in self.arrived()
        }

    def empty(self) -> None:
        """One by one: XML cannot name a key with an escape in it, so that such keys cannot be deleted in bulk."""
        for bucket in (self.source, self.target):
            for each in self.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
                self.s3.delete_object(Bucket=bucket, Key=each["Key"])

    def open_uploads(self) -> list[Any]:
        return self.s3.list_multipart_uploads(Bucket=self.target).get("Uploads", [])
