"""The process that serves a share: killed at any moment, also while it starts, and started again."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from support.mounts import Mount
from support.processes import RunningProcess, run, seqferry
from support.waiting import eventually

_LOOK_SECONDS: Final = 0.05
_START_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 240.0
_PAUSE_SECONDS: Final = 1.0


class Host:
    """Keeps a command running. A context manager: the command is killed at the end.

    Args:
        mount: the folder that the command mounts; None for a gateway.
        log: gets what each process has printed.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        cache: Path,
        log: Path,
        *,
        mount: Mount | None = None,
    ) -> None:
        self._command = command
        self._environment = environment
        self._cache = cache
        self._log = log
        self._mount = mount
        self._lock = threading.Lock()
        self._process: RunningProcess | None = None
        self._not_before = 0.0
        self._killed_at: float | None = None
        self._is_wanted = True
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="host", daemon=True)
        self.generation = 0
        """Grows right before each kill."""
        self.kills = 0
        self.ends: list[str] = []
        """What processes printed that ended by themselves."""
        self.recovery: list[float] = []
        """Seconds from each kill to the next call that was begun after it and acknowledged."""

    def __enter__(self) -> Self:
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._keeper.join()
        with self._lock:
            if self._process is not None:
                self._bury(self._process)
        self._unmount()

    def kill(self, pause: float) -> None:
        """End the process by SIGKILL and start another one after so many seconds."""
        with self._lock:
            if self._process is None:
                return
            self.generation += 1
            self.kills += 1
            self._process.kill()
            self._killed_at = time.monotonic()
            self._not_before = self._killed_at + pause
            self._bury(self._process)

    def acknowledged(self, began: float) -> None:
        """A call was answered that began at this time of ``time.monotonic``."""
        killed_at = self._killed_at
        if killed_at is not None and began > killed_at:
            self._killed_at = None
            self.recovery.append(time.monotonic() - killed_at)

    def drain(self) -> list[str]:
        """Upload everything and end the process. Returns what was wrong with that."""
        try:
            eventually(self._is_serving, what="the process to serve", deadline=_START_SECONDS, every=0.3)
        except TimeoutError as late:
            return [f"{late}: {self._process}"]
        self._is_wanted = False
        process = self._process
        command = [seqferry(), "gateway", "drain", "--cache", self._cache]
        try:
            drained = run(command, environment=self._environment, deadline=_DRAIN_SECONDS, expect=None)
        except TimeoutError as late:
            return [f"the drain did not end: {late}", self._status()]
        if drained.returncode != 0:
            return [f"the drain failed with {drained.returncode}: {drained.stderr}{drained.stdout}", self._status()]
        try:
            status = process.wait(_DRAIN_SECONDS) if process is not None else None
        except TimeoutError as late:
            return [f"the process did not end after the drain: {late}"]
        return [] if status == 0 else [f"the process that was drained ended with {status}: {process}"]

    def start(self) -> None:
        """Start it again after a drain."""
        with self._lock:
            if self._process is not None:
                self._bury(self._process)
            self._is_wanted = True

    def _is_serving(self) -> bool:
        return self._asked("status").returncode == 0

    def _status(self) -> str:
        return self._asked("status").stdout

    def _asked(self, what: str) -> subprocess.CompletedProcess[str]:
        command = [seqferry(), "gateway", what, "--cache", self._cache]
        return run(command, environment=self._environment, expect=None, is_preloaded=True)

    def _keep(self) -> None:
        # This thread lives until ``__exit__``: the process outlives neither the run nor its kill.
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                if self._is_wanted:
                    self._keep_running()

    def _keep_running(self) -> None:
        if self._process is not None and not self._process.running:
            self.generation += 1
            self.ends.append(f"the process ended by itself: {self._process}")
            self._bury(self._process)
            self._not_before = time.monotonic() + _PAUSE_SECONDS
        if self._process is None and time.monotonic() >= self._not_before:
            try:
                self._unmount()
            except AssertionError as why:
                self.ends.append(f"the dead mount was not unmounted: {why}")
                self._not_before = time.monotonic() + _PAUSE_SECONDS
                return
            self._process = RunningProcess(self._command, environment=self._environment, is_bound=True)

    def _bury(self, process: RunningProcess) -> None:
        with self._log.open("a") as log:
            log.write(f"--- generation {self.generation}\n{process.stdout}{process.stderr}")
        process.__exit__()
        self._process = None

    def _unmount(self) -> None:
        if self._mount is None:
            return
        if _is_dead(self._mount.directory) or self._mount.is_mounted:
            self._mount.umount("--force")


def _is_dead(folder: Path) -> bool:
    """True for a mount whose process was killed."""
    try:
        folder.stat()
    except OSError:
        return True
    return False
