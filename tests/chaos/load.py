"""Transfers of all kinds, submitted all the time: copies, moves, packs and removals on a real server, copies on the
simulator and into it, and a schedule. Some are paused for a while, some cancelled, some wait for another one.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psycopg

from chaos.executor import Log
from chaos.observer import Observer
from chaos.world import World
from support.waiting import eventually

MIB: Final = 1024 * 1024
PARTS: Final = ("--part-size", "5MiB", "--copy-threshold", "5MiB")
SCHEDULE: Final = "feed"
_SIMULATED: Final = {"sim-small": (60, "4 KiB"), "sim-big": (3, "11 MiB")}
_WAIT_SECONDS: Final = 0.3
_PAUSED: Final = 0.12
_CANCELLED: Final = 0.08
_SAME_TARGET: Final = 0.4
"""Shares of transfers, the last of those that can have a follower: choice."""
_PAUSE_SECONDS: Final = (1.0, 6.0)
_RESUMED_WITHIN: Final = 60.0


@dataclass
class Job:
    """One command, submitted until it is known to be on record."""

    number: int
    kind: str
    words: list[str]
    target: str = ""
    """Prefix (or key) of the target in its bucket."""
    source: str = ""
    expected: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Contents by name below source and target."""
    transfer_id: str = ""
    tries: int = 0
    may_be_cancelled: bool = False
    """A person has cancelled it: it is cancelled, or has ended before."""

    @property
    def is_small(self) -> bool:
        """No object of it is copied in parts."""
        return bool(self.expected) and max(map(len, self.expected.values())) < MIB


class Load:
    """Submits while the block runs, unless it is paused."""

    def __init__(self, world: World, observer: Observer, log: Log, seed: int, *, at_once: int) -> None:
        self._world = world
        self._observer = observer
        self._log = log
        self._rng = random.Random(seed ^ 0x10AD)
        self._at_once = at_once
        self._ended = threading.Event()
        self._going = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._submit_all, name="load", daemon=True)
        self._paused: dict[str, float] = {}
        """Transfers to resume, and when."""
        self._last_small: Job | None = None
        self.jobs: list[Job] = []
        """On record, and not looked at yet by ``take``."""
        self.submitted: Counter[str] = Counter()
        self.failed_commands = 0
        self.libraries: dict[str, dict[str, bytes]] = {}
        self.fed: dict[str, bytes] = {}
        self.failure = ""

    def __enter__(self) -> Self:
        self._fill()
        self._going.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._going.set()
        self._thread.join()

    def pause(self) -> None:
        """Return when nothing is being submitted, and nothing will be until ``go_on``."""
        self._going.clear()
        self._idle.wait()
        eventually(lambda: self._resume(float("inf")), what="all to be resumed", deadline=_RESUMED_WITHIN)
        self._schedule("pause")

    def go_on(self) -> None:
        self._schedule("resume")
        self._idle.clear()
        self._going.set()

    def take(self) -> list[Job]:
        taken, self.jobs = self.jobs, []
        return taken

    def _schedule(self, verb: str) -> None:
        status, _, errors = self._world.ferry("schedule", verb, SCHEDULE)
        if status != 0:
            raise RuntimeError(f"schedule {verb}: status {status}: {errors}")

    # --- before the run ---

    def _fill(self) -> None:
        world = self._world
        small = {f"s{number:03d}": self._rng.randbytes(self._rng.randrange(4096)) for number in range(40)}
        big = {f"b{number}": self._rng.randbytes(11 * MIB + number) for number in range(2)}
        self.libraries = {"small": small, "mixed": big | dict(list(small.items())[:10])}
        for name, contents in self.libraries.items():
            self._put(f"{name}/", contents)
        self._feed()
        client = world.simulator.client()
        assert [one["Name"] for one in client.list_buckets()["Buckets"]], "the simulator has no bucket"
        bucket = world.bucket
        status, _, errors = world.ferry(
            *("schedule", "add", "*/20 * * * * *", "--name", SCHEDULE),
            *("sync", f"s3://{bucket}/feed/", f"s3://{bucket}/fed/"),
        )
        assert status == 0, errors

    def _feed(self) -> None:
        name = f"f{len(self.fed):05d}"
        self.fed[name] = self._rng.randbytes(200)
        self._put("feed/", {name: self.fed[name]})

    # --- what people do ---

    def _act(self, job: Job) -> None:
        """Pause or cancel a transfer, now and then. Whether the command came through does not matter."""
        chance = self._rng.random()
        if chance < _PAUSED:
            self._world.ferry("pause", job.transfer_id)
            self._paused[job.transfer_id] = time.monotonic() + self._rng.uniform(*_PAUSE_SECONDS)
        # Objects in parts may leave an upload to the bucket's lifecycle rule, when the storage is away just then.
        elif chance < _PAUSED + _CANCELLED and job.is_small and job.kind in {"cp", "sync", "mv", "rm"}:
            job.may_be_cancelled = True
            self._world.ferry("cancel", job.transfer_id, "--detach")

    def _resume(self, until: float) -> bool:
        """Resume what is to be resumed until then; False when some is left paused."""
        due = [transfer_id for transfer_id, at in self._paused.items() if at <= until]
        for transfer_id in due:
            self._world.ferry("resume", transfer_id, "--detach")
            try:
                state = self._observer.query("SELECT state FROM transfer WHERE id = %s", (transfer_id,))
            except (psycopg.Error, OSError):
                return False
            if state != [("paused",)]:
                del self._paused[transfer_id]
        return not any(at <= until for at in self._paused.values())

    def _put(self, prefix: str, contents: dict[str, bytes]) -> None:
        client, bucket = self._world.server.client(), self._world.bucket

        def put(name: str) -> None:
            client.put_object(Bucket=bucket, Key=prefix + name, Body=contents[name])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, contents))

    # --- during the run ---

    def _submit_all(self) -> None:
        number = 0
        try:
            while not self._ended.is_set():
                if not self._going.is_set():
                    self._idle.set()
                    self._going.wait(_WAIT_SECONDS)
                    continue
                self._idle.clear()
                self._resume(time.monotonic())
                if len(self._observer.open) >= self._at_once:
                    self._ended.wait(_WAIT_SECONDS)
                    continue
                number += 1
                if number % 5 == 0:
                    self._feed()
                self._submit(self._job(number))
        except Exception as why:  # told by the main thread, which ends the run
            self.failure = f"{type(why).__name__}: {why}"
            raise
        finally:
            self._idle.set()

    def _job(self, number: int) -> Job:
        kind = self._rng.choices(["cp", "sync", "mv", "rm", "pack", "sim-cp", "sim-upload"], [6, 3, 4, 2, 2, 3, 2])[0]
        library = self._rng.choice(["small", "small", "mixed"])
        before = self._last_small
        if before is not None and before.transfer_id in self._observer.open and self._rng.random() < _SAME_TARGET:
            return self._into_the_same(number, before)
        return getattr(self, f"_{kind.replace('-', '_')}")(number, kind, library)

    def _cp(self, number: int, kind: str, library: str) -> Job:
        bucket, target = self._world.bucket, f"out/{number:05d}/"
        words = [kind, f"s3://{bucket}/{library}/", f"s3://{bucket}/{target}", *PARTS]
        return Job(number, kind, words, target, f"{library}/", self.libraries[library])

    _sync = _cp

    def _into_the_same(self, number: int, before: Job) -> Job:
        """The same once more: it waits for the one before, and has nothing to copy but what that one has not."""
        words = ["sync", *before.words[1:], "--new"]
        self._last_small = None
        return Job(number, "sync", words, before.target, before.source, before.expected)

    def _mv(self, number: int, kind: str, library: str) -> Job:
        bucket, source, target = self._world.bucket, f"in/{number:05d}/", f"moved/{number:05d}/"
        names = list(self.libraries[library])[-12:] + (["b0"] if library == "mixed" else [])
        contents = {name: self.libraries[library][name] for name in names}
        self._put(source, contents)
        words = [kind, f"s3://{bucket}/{source}", f"s3://{bucket}/{target}", *PARTS]
        return Job(number, kind, words, target, source, contents)

    def _rm(self, number: int, kind: str, library: str) -> Job:
        bucket, source = self._world.bucket, f"doomed/{number:05d}/"
        contents = dict.fromkeys(list(self.libraries["small"])[:12], b"doomed")
        self._put(source, contents)
        return Job(number, kind, [kind, "--recursive", f"s3://{bucket}/{source}"], "", source, contents)

    def _pack(self, number: int, kind: str, library: str) -> Job:
        bucket, target = self._world.bucket, f"packed/{number:05d}.tar"
        words = [kind, f"s3://{bucket}/{library}/", f"s3://{bucket}/{target}", "--part-size", "5MiB"]
        return Job(number, kind, words, target, f"{library}/", self.libraries[library])

    def _sim_cp(self, number: int, kind: str, library: str) -> Job:
        source = "sim-small" if library == "small" else "sim-big"
        words = [
            "cp",
            f"s3://{source}/",
            f"s3://sim/{number:05d}/",
            "--endpoint-url",
            self._world.simulator.endpoint_url,
        ]
        return Job(number, kind, [*words, *PARTS], f"{number:05d}/", source)

    def _sim_upload(self, number: int, kind: str, library: str) -> Job:
        target = f"up/{number:05d}/"
        words = ["cp", f"s3://{self._world.bucket}/{library}/", f"s3://sim/{target}"]
        ways = ("--source-endpoint-url", self._world.endpoint)
        ways += ("--target-endpoint-url", self._world.simulator.endpoint_url)
        return Job(number, kind, [*words, *ways, *PARTS], target, f"{library}/", self.libraries[library])

    def _submit(self, job: Job) -> None:
        """Until it is on record, or the run pauses before it is: then it is given up, unless it is there after all."""
        name = f"job{job.number}"
        words = [*job.words, "--detach", "--no-preflight", "--name", name]
        while not self._ended.is_set():
            job.tries += 1
            status, output, errors = self._world.ferry(*words)
            found = output.strip().splitlines()[-1] if status == 0 else self._on_record(name)
            if found:
                job.transfer_id = found
                self.jobs.append(job)
                self.submitted[job.kind] += 1
                self._log.tell(job=job.number, kind=job.kind, transfer=found, tries=job.tries)
                if job.kind in {"cp", "sync"} and job.is_small and "--new" not in job.words:
                    self._last_small = job
                self._act(job)
                return
            self.failed_commands += 1
            self._log.tell(job=job.number, kind=job.kind, status=status, said=errors.strip()[-400:])
            if "Traceback" in errors:
                raise RuntimeError(f"a traceback for a person: {job.words}: {errors}")
            self._ended.wait(_WAIT_SECONDS)

    def _on_record(self, name: str) -> str:
        """Its transfer, when the command failed after it was recorded."""
        try:
            found = self._observer.query("SELECT id FROM transfer WHERE name = %s", (name,))
        except (psycopg.Error, OSError):
            return ""
        return found[0][0] if found else ""


def simulator_buckets() -> list[str]:
    """Options of the simulator: an empty bucket, and two that are full."""
    full = [f"{name}=keys=d{{i:03}}.bin;count={count};size={size}" for name, (count, size) in _SIMULATED.items()]
    return [word for bucket in ("sim", *full) for word in ("--bucket", bucket)]


def digest(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def counted(jobs: list[Job]) -> dict[str, Any]:
    return dict(Counter(job.kind for job in jobs))
