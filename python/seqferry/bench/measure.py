"""Resources that processes and their children use: a command run once and measured, and samples of running processes.

CPU time of a command comes from ``wait4``, memory from ``/proc``; where there is no such folder, memory is not known.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from seqferry.model.frozen import frozen

_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_OF_FOLDERS: Final = 0x20000  # as `chattr +T`
RUN_WITHIN: Final = 3600.0
"""Seconds. A run that takes longer is ended, and has failed."""
_SHOWN_LINES: Final = 3
_OUTPUT_KEPT: Final = 4000
"""Bytes of the end of what a command printed: enough to say why it failed."""


@frozen
class Cost:
    """Cost and end of one run of a command. CPU and memory include the processes that it started."""

    wall_s: float
    cpu_s: float
    peak_bytes: int | None
    """The peaks of all of its processes summed; None where the system does not tell."""
    status: int
    """Its exit status; negative: the signal that ended it."""
    timed_out: bool
    output: str
    """The end of what it printed."""

    @property
    def failure(self) -> str | None:
        """Reason of a failed run, in one line; None when it succeeded."""
        if self.status == 0:
            return None
        if self.timed_out:
            return f"it ran for more than {self.wall_s:.0f} s and was ended"
        # Further in stand names of objects, or the way to where something was raised.
        lines = [line.strip() for line in self.output.splitlines() if line.strip() and not line.startswith("    ")]
        return f"it ended with status {self.status}: {' | '.join(lines[-_SHOWN_LINES:]) or 'it said nothing'}"


def run(command: Sequence[str], *, environment: Mapping[str, str], folder: Path, timeout: float = RUN_WITHIN) -> Cost:
    """Runs a command once, in a session of its own, and waits for its end.

    However this ends, the command has ended: after ``timeout`` seconds, and when the wait is interrupted, it is killed
    with all that it has started.

    Args:
        folder: its working folder; what it prints is kept there in a file, until the end.

    Raises:
        OSError: the command cannot be started.
    """
    path = folder / "output"
    with path.open("w+b") as output:
        late = threading.Event()
        started = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - the caller's command is the point
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )

        def give_up() -> None:
            late.set()
            _kill(process.pid)

        watchdog = threading.Timer(timeout, give_up)
        watchdog.daemon = True
        try:
            with Watch([process.pid]) as watch:
                watchdog.start()
                # wait4 tells what this child and the children that it waited for have used.
                _, status, used = os.wait4(process.pid, 0)
                wall = time.perf_counter() - started
        except BaseException:
            _kill(process.pid)
            process.wait()
            raise
        finally:
            watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(max(output.seek(0, os.SEEK_END) - _OUTPUT_KEPT, 0))
        said = output.read().decode(errors="replace").strip()
    path.unlink()
    return Cost(
        wall_s=wall,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_bytes=round(watch.peak_mib * 2**20) or None,
        status=process.returncode,
        timed_out=late.is_set(),
        output=said,
    )


def sync(folder: Path) -> float:
    """Has the system write to the disk what it still holds back of a folder's file system; the seconds that it took.

    One call flushes the whole file system, as the system does by itself. Flushing file by file would put methods at a
    disadvantage that leave the flushing to the system.

    Raises:
        OSError: the file system cannot be written.
    """
    started = time.perf_counter()
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):  # not Linux
        os.sync()
    else:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(folder))
        finally:
            os.close(descriptor)
    return time.perf_counter() - started


def spread(folder: Path) -> None:
    """Has ext4 keep the folders that are made in this one apart from each other on the disk. Elsewhere it does nothing.

    Files made beside many that were removed within the last minutes cost it up to six times as much: it passes over
    each number that was theirs. A method would pay for the one before it.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            flags = bytearray(8)
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            flags[:4] = (int.from_bytes(flags[:4], "little") | _TOP_OF_FOLDERS).to_bytes(4, "little")
            fcntl.ioctl(descriptor, _SET_FLAGS, bytes(flags))
        finally:
            os.close(descriptor)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


class Watch:
    """Watches the peak resident memory of processes and their children, from the kernel's own high-water marks.

    Not from ``wait4``: there the peak begins at that of the process which forked, the bench.
    """

    _EVERY = 0.02

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = list(pids)
        self._peaks: dict[int, int] = {}
        self._ticks: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def peak_mib(self) -> float:
        """The sum over all of the processes, MiB."""
        return sum(self._peaks.values()) / 1024

    def cpu_s(self) -> float:
        """User and system time of all of the processes so far, seconds; of those that ended, as last seen."""
        for pid in self.tree():
            self._sample_cpu_time(pid)
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def tree(self) -> Iterator[int]:
        todo = list(self._pids)
        while todo:
            pid = todo.pop()
            try:
                tasks = list(Path(f"/proc/{pid}/task").iterdir())
                todo += [int(child) for task in tasks for child in (task / "children").read_text().split()]
            except OSError:
                continue
            yield pid

    def _sample_cpu_time(self, pid: int) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        # After the command's name, which may hold anything: utime and stime are fields 14 and 15 of all.
        fields = stat.rpartition(")")[2].split()
        self._ticks[pid] = int(fields[11]) + int(fields[12])

    def _watch(self) -> None:
        # The first sample is taken immediately: a process has begun its program when Popen returns.
        while True:
            for pid in self.tree():
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                mark = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
                if mark:
                    self._peaks[pid] = int(mark.split()[1])
                self._sample_cpu_time(pid)
            if self._stop.wait(self._EVERY):
                return


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    """User and system time of a process and all that it has started, those that have ended included, seconds."""
    biggest_mib: float
    """Resident memory of the biggest of the processes, memory that it shares with others included."""


def usage(pid: int) -> Usage:
    """CPU time of a process and its children so far, and memory of the biggest of them now."""
    watch = Watch([pid])
    ticks, biggest = 0, 0
    for each in watch.tree():
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # utime, stime, and those of children that were waited for.
        ticks += sum(int(field) for field in fields[11:15])
        biggest = max(biggest, int(fields[21]))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), biggest * os.sysconf("SC_PAGE_SIZE") / 2**20)


def threads_cpu_s(pid: int) -> dict[str, float]:
    """User and system time of the threads of a process that live now, seconds, summed by their names."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, fields = (task / "comm").read_text().strip(), (task / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks = int(fields[11]) + int(fields[12])
        found[name] = found.get(name, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return found
