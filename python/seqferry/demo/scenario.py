"""Steps of ``seqferry demo``: a delivery, its mirror, a killed worker, the restart, and the verification.

Everything runs in processes and a folder of its own, and all of it is gone at the end, however it ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from seqferry.demo.buckets import Buckets, OpenUpload, SeenObject
from seqferry.demo.delivery import MIB, SUMS_NAME, make_delivery
from seqferry.demo.reaper import Reaper
from seqferry.demo.server import SeaweedFS, answers, free_ports
from seqferry.model.errors import SeqferryError
from seqferry.model.frozen import frozen
from seqferry.model.labels import Description
from seqferry.model.models import ObjectRecord, Status
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec.build import build_spec
from seqferry.spec.validation import MIN_PART_SIZE

SOURCE_BUCKET: Final = "vendor-delivery"
TARGET_BUCKET: Final = "our-archive"
PREFIX: Final = "run42/"
NAME: Final = "Run 42"
PART_SIZE: Final = 16 * MIB
"""Smaller than the default, so that a delivery of 1 GB has parts worth resuming."""
COPY_THRESHOLD: Final = 128 * MIB
"""The default. Both shrink with a smaller delivery, so that it has parts as well."""
MAX_REQUESTS: Final = 2
"""Keeps the copy slow enough to be watched and killed in its middle."""

_KILL_FROM: Final = 0.40
_KILL_AT_LAST: Final = 0.55
_KILL_WITHIN: Final = (0.30, 0.70)
"""Shares of the bytes that must be at the target for and after the kill, parts of open uploads included.

From ``_KILL_FROM`` on the worker is killed as soon as an upload with parts is open, at ``_KILL_AT_LAST`` in any case.
Requests in flight still arrive after that.
"""
_POLL: Final = 0.1
_STUCK: Final = 120.0
"""Seconds without any progress after which the demo gives up."""
_CALLED_BY_C: Final = f"{os.sep}awscrt{os.sep}"
_LATER: Final = 0.05
"""Seconds after which an interrupt that came at the wrong moment is tried again."""


class DemoFailedError(SeqferryError):
    code = "demo_failed"


class ProgressDisplay(Protocol):
    """A live display of one transfer."""

    def update(self, status: Status) -> None: ...
    def close(self) -> None: ...


@frozen
class KillSnapshot:
    """State of the target and of the record after the worker was killed."""

    wall: float
    share: float
    seen: dict[str, SeenObject]
    uploads: list[OpenUpload]
    ended: dict[str, ObjectRecord]
    seconds: float


@frozen
class Figures:
    """Figures of the summary; times in seconds."""

    objects: int
    bytes: int
    kill: KillSnapshot
    back_after: float
    after_restart: float
    verifying: float
    total: float


def run(
    *,
    show: Callable[[], ProgressDisplay],
    say: Callable[[str], None],
    tell: Callable[[Figures], None],
    scale: float = 1.0,
    seed: int = 42,
    keep: bool = False,
) -> None:
    """Run the demo from the server's start to the figures at its end.

    Args:
        show: makes a display for a transfer.
        say: prints one line.
        tell: prints the figures.
        scale: of the delivery; 1 is 1 GB.
        keep: the page and the buckets stay until this process is interrupted, which is no failure then.

    Raises:
        DemoFailedError: something was not as it should be.
        ConfigError: a package of ``seqferry[demo]`` is missing, or the server does not start.
    """
    began = time.monotonic()
    say("1. Starting an S3 server: SeaweedFS on loopback, in a throw-away folder")
    with (
        _terminable(),
        Reaper() as reaper,
        SeaweedFS(reaper) as server,
        _throw_away_folder(reaper) as folder,
        _environment(server.credentials()),
    ):
        say(f"   {server.endpoint_url}")
        buckets = Buckets(server.endpoint_url, server.credentials())
        demo = _DemoRun(server.endpoint_url, buckets, folder, reaper, show, say)
        tell(demo.run(scale=scale, seed=seed, began=began))
        if keep:
            demo.keep()


class _DemoRun:
    def __init__(
        self,
        endpoint_url: str,
        buckets: Buckets,
        folder: Path,
        reaper: Reaper,
        show: Callable[[], ProgressDisplay],
        say: Callable[[str], None],
    ) -> None:
        self._endpoint_url = endpoint_url
        self._buckets = buckets
        self._state = folder / "state"
        self._log = folder / "worker.log"
        [self._port] = free_ports(1)
        self._reaper = reaper
        self._show = show
        self._say = say

    def run(self, *, scale: float, seed: int, began: float) -> Figures:
        objects, total = self._deliver(scale, seed)
        source, target = f"s3://{SOURCE_BUCKET}/{PREFIX}", f"s3://{TARGET_BUCKET}/{PREFIX}"
        part_size = max(int(PART_SIZE * min(scale, 1.0)), MIN_PART_SIZE)
        copy_threshold = int(COPY_THRESHOLD * min(scale, 1.0))
        self._say(f"3. Mirroring: seqferry cp {source} {target} --part-size {part_size // MIB}MiB")
        spec = build_spec(
            source, target, endpoint_url=self._endpoint_url, part_size=part_size, copy_threshold=copy_threshold
        )
        with Service.open(Settings.load({}, state_dir=str(self._state))) as service:
            service.check(spec)
            transfer_id = service.submit_or_resume(spec, actor="demo", description=Description(NAME)).id
            self._say(f"   Its page, while a worker runs: {self._page}#/t/{transfer_id}")
            kill = self._first_half(service, transfer_id, total)
            back_after, after_restart = self._second_half(service, transfer_id, kill, objects, total)
            self._check_nothing_repeated(service, transfer_id, kill)
        self._say("6. Reading everything back with boto3 and comparing with the vendor's md5sum.txt")
        verifying = time.monotonic()
        self._verify(objects, total)
        now = time.monotonic()
        return Figures(objects, total, kill, back_after, after_restart, now - verifying, now - began)

    @property
    def _page(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def keep(self) -> None:
        """Serve the page until an interrupt.

        Raises:
            DemoFailedError: the server has ended by itself.
        """
        with self._worker() as worker:
            try:
                while worker.poll() is None and not answers(self._page):
                    time.sleep(_POLL)
                self._say(f"The page stays at {self._page} and the buckets at {self._endpoint_url}, until Ctrl-C.")
                worker.wait()
            except KeyboardInterrupt:
                return
            raise DemoFailedError(f"The server of the page has ended by itself with code {worker.returncode}.")

    def _deliver(self, scale: float, seed: int) -> tuple[int, int]:
        files = make_delivery(seed=seed, scale=scale)
        whole = sum(file.size for file in files)
        self._say(
            f"2. The vendor delivers {len(files) + 1} objects, {whole / 1e9:.2f} GB, to s3://{SOURCE_BUCKET}/{PREFIX}"
        )
        began = time.monotonic()
        quarter = 1

        def progress(objects: int, done: int) -> None:
            nonlocal quarter
            if done >= whole * quarter / 4:
                self._say(f"   {objects} objects, {done / 1e9:.2f} GB after {time.monotonic() - began:.1f} s")
                quarter = int(done * 4 / whole) + 1

        self._buckets.make(SOURCE_BUCKET)
        self._buckets.make(TARGET_BUCKET)
        return self._buckets.deliver(files, SOURCE_BUCKET, PREFIX, progress=progress)

    def _first_half(self, service: Service, transfer_id: str, total: int) -> KillSnapshot:
        """Let a worker begin, and kill it when about half is at the target."""
        with self._worker() as worker:
            began = time.monotonic()
            show = self._show()
            patience = _StallDetector(self._log)
            try:
                while True:
                    status = service.status(transfer_id)
                    show.update(status)
                    seen, uploads, share = self._at_target(total)
                    in_parts = any(upload.parts for upload in uploads)
                    if share >= (_KILL_FROM if in_parts and seen else _KILL_AT_LAST):
                        break
                    if status.ended:
                        raise DemoFailedError("The transfer ended before its worker could be killed.")
                    patience.see(worker, (share, status.totals))
                    time.sleep(_POLL)
                wall = time.time()
                os.kill(worker.pid, signal.SIGKILL)
                worker.wait()
            finally:
                show.close()
        seconds = time.monotonic() - began
        # What the storage had accepted before the kill may arrive after it: look once more.
        seen, uploads, share = self._at_target(total)
        if not _KILL_WITHIN[0] <= share <= _KILL_WITHIN[1]:
            raise DemoFailedError(f"The worker was killed at {share:.0%} of the bytes, not in the middle of its work.")
        ended = {
            record.source_key.removeprefix(PREFIX): record
            for record in service.objects(transfer_id)
            if record.state == "done"
        }
        self._say(f"4. Killed the worker (SIGKILL, pid {worker.pid}) with {share:.0%} of the bytes copied:")
        self._say(f"   {len(seen)} objects are whole at the target, {len(ended)} of them recorded as verified;")
        self._say(f"   {len(uploads)} multipart uploads are open and hold {sum(each.parts for each in uploads)} parts")
        return KillSnapshot(wall, share, seen, uploads, ended, seconds)

    def _second_half(
        self, service: Service, transfer_id: str, kill: KillSnapshot, objects: int, total: int
    ) -> tuple[float, float]:
        """Start a worker again and let it finish; returns seconds until an object was recorded, and to the end."""
        self._say("5. Starting the worker again; it resumes the transfer from the database")
        upload_of = {each.name: each.upload_id for each in kill.uploads}
        back_after: float | None = None
        with self._worker() as worker:
            began = time.monotonic()
            show = self._show()
            patience = _StallDetector(self._log)
            try:
                while not (status := service.status(transfer_id)).ended:
                    show.update(status)
                    seen, uploads, _ = self._at_target(total)
                    # By the record, which only a living worker writes: the storage may still finish requests of the
                    # killed one.
                    if back_after is None and status.totals.done + status.totals.skipped > len(kill.ended):
                        back_after = time.monotonic() - began
                    for each in uploads:
                        # It may be listed still while the object that it became is there already.
                        if each.name not in seen and upload_of.get(each.name, each.upload_id) != each.upload_id:
                            raise DemoFailedError(f"{each.name} was begun anew instead of being resumed.")
                    patience.see(worker, status.totals)
                    time.sleep(_POLL)
            finally:
                show.close()
            seconds = time.monotonic() - began
        totals = status.totals
        # Skipped: whole at the target when the worker was killed, but not recorded yet. Found again, not copied again.
        whole = totals.done + totals.skipped
        if status.state != "done" or whole != objects:
            raise DemoFailedError(
                f"The transfer ended as {status.state} with {whole} of {objects} objects copied and verified."
                + (f" {status.error_message}" if status.error_message else "")
            )
        self._say(f"   done: {whole} of {totals.objects} objects, {seconds:.1f} s after the restart")
        return back_after or seconds, seconds

    def _check_nothing_repeated(self, service: Service, transfer_id: str, kill: KillSnapshot) -> None:
        now = self._buckets.look(TARGET_BUCKET, PREFIX)
        again = [name for name, seen in kill.seen.items() if now.get(name) != seen]
        if again:
            raise DemoFailedError(f"Copied a second time although it was whole before the kill: {', '.join(again)}.")
        records = {record.source_key.removeprefix(PREFIX): record for record in service.objects(transfer_id)}
        for name, before in kill.ended.items():
            if records[name] != before or (before.ended_at or kill.wall) > kill.wall:
                raise DemoFailedError(f"The record of {name} was ended before the kill and has changed since.")
        left = self._buckets.open_uploads(TARGET_BUCKET, PREFIX)
        if left:
            raise DemoFailedError(f"{len(left)} multipart uploads were left open, {left[0].name} for one.")
        self._say(
            f"   all {len(kill.seen)} objects from before the kill still have their date and ETag: none was repeated"
        )

    def _verify(self, objects: int, total: int) -> None:
        read, size, wrong = self._buckets.verify(TARGET_BUCKET, PREFIX)
        if wrong:
            raise DemoFailedError(f"{len(wrong)} objects are not as delivered: {'; '.join(wrong[:5])}.")
        if (read, size) != (objects, total):
            raise DemoFailedError(f"{read} objects with {size} bytes arrived; {objects} with {total} were delivered.")
        self._say(f"   {read - 1} of {read - 1} MD5 sums match ({SUMS_NAME} is the list itself)")

    def _at_target(self, total: int) -> tuple[dict[str, SeenObject], list[OpenUpload], float]:
        """Whole objects, open uploads, and their share of all bytes, from the storage itself: no report lags behind."""
        uploads = self._buckets.open_uploads(TARGET_BUCKET, PREFIX)
        seen = self._buckets.look(TARGET_BUCKET, PREFIX)
        parts = sum(each.bytes for each in uploads if each.name not in seen)
        return seen, uploads, (sum(each.size for each in seen.values()) + parts) / total

    @contextmanager
    def _worker(self) -> Generator[subprocess.Popen[bytes]]:
        """A server with a worker and the page; killed at the end if it has not been before."""
        command = [sys.executable, "-m", "seqferry", "serve", "--port", str(self._port), "--no-token"]
        command += ["--max-requests", str(MAX_REQUESTS)]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SEQFERRY_")}
        with self._log.open("ab") as log:
            process = self._reaper.start(command, log=log, env={**ours, "SEQFERRY_STATE_DIR": str(self._state)})
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            self._reaper.drop(process.pid)


class _StallDetector:
    """Gives up when the worker ends by itself or nothing changes for long."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._last: object = None
        self._since = time.monotonic()

    def see(self, worker: subprocess.Popen[bytes], now: object) -> None:
        if worker.poll() is not None:
            raise DemoFailedError(f"The worker ended by itself with code {worker.returncode}: {self._last_words()}")
        if now != self._last:
            self._last, self._since = now, time.monotonic()
        elif time.monotonic() - self._since > _STUCK:
            raise DemoFailedError(f"Nothing moved for {_STUCK:.0f} s. The worker last said: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"


@contextmanager
def _throw_away_folder(reaper: Reaper) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="seqferry-demo-"))
    try:
        reaper.add(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        reaper.drop(folder)


@contextmanager
def _environment(credentials: dict[str, str]) -> Generator[None]:
    """AWS settings for this process and its workers; the user's own ones come back afterwards."""
    before = dict(os.environ)
    try:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(credentials)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _terminable() -> Generator[None]:
    """SIGTERM unwinds like Ctrl-C, so that nothing is left behind; and neither is lost."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt as Python does, but later if boto3's library in C has called: it would swallow it."""
    while frame is not None:
        if _CALLED_BY_C in frame.f_code.co_filename:
            signal.setitimer(signal.ITIMER_REAL, _LATER)
            return
        frame = frame.f_back
    raise KeyboardInterrupt
