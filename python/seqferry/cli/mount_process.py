"""The process that serves a mount, in the foreground or by itself, to its end by ``umount`` or by a signal.

What must stay true: however a process ends that a signal or an exception can end, its folder is unmounted. Only
SIGKILL and a fault of the processor leave a dead mount behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

from seqferry.cli import exits
from seqferry.engine.mounts import MountSpec
from seqferry.model.errors import ConfigError, SeqferryError
from seqferry.places import private_files
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    from types import FrameType

_LOOK: Final = 0.2
"""Seconds between two checks for a signal."""

_LOG: Final = "mount.log"
_TABLES: Final = "mounts"

_MOST_SIGNALS: Final = 3
"""The third signal ends the process though files are open."""

_MOST_DESCRIPTORS: Final = 1 << 20
"""Higher numbers are not closed: Linux gives a process that many by default at most."""

_NOT_ENDING: Final = frozenset(
    {
        # They cannot be caught.
        signal.SIGKILL, signal.SIGSTOP,
        # They end no process.
        signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGURG, signal.SIGWINCH,
        # Faults of the process: it cannot go on to handle them.
        signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
    }
)  # fmt: skip


class _ServedFolder(Protocol):
    def wait(self, seconds: float, /) -> bool: ...

    def unmount(self) -> None: ...


class _WrittenFolder(Protocol):
    def drain(self) -> None: ...

    def wait_for_drain(self, seconds: float, /) -> bool: ...


_Folder = TypeVar("_Folder", bound=_ServedFolder)


def ending_signals() -> list[int]:
    """Signals that would end this process: a closed terminal, Ctrl-C, ``kill``, and those of batch systems.

    Those that are ignored stay so, as nohup and a shell in the background want it, but for SIGTERM.
    """
    ending = signal.valid_signals() - _NOT_ENDING
    return sorted(one for one in ending if one == signal.SIGTERM or signal.getsignal(one) != signal.SIG_IGN)


def serve(spec: MountSpec, state_dir: str | None, ready: Callable[[], None]) -> int:
    """Serve in this process until the folder is unmounted; returns the exit code.

    Args:
        ready: called when the folder can be used.
    """
    # Imported here: the engine's threads must be made in the process that serves.
    from seqferry.engine.mounting import SHARE, mount, mount_writable
    from seqferry.engine.traces import trace
    from seqferry.service.upload_batches import UploadBatchRecorder

    asked: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) >= _MOST_SIGNALS:
            raise KeyboardInterrupt

    # Before the mount: a signal that comes while it is made must not leave it behind.
    for number in ending_signals():
        with contextlib.suppress(OSError, ValueError):  # one that the system keeps for itself
            signal.signal(number, stop)
    settings = Settings.load(state_dir=state_dir, with_tables=False)
    trace(settings.trace)
    if spec.writable:
        with (
            _unmount_in_the_end(mount_writable(spec, _tables(settings))) as written,
            UploadBatchRecorder(settings, {SHARE: spec.place}, written),
        ):
            ready()
            with _presence(settings, spec):
                # A drained share holds all writes: programs would wait for good in a folder that is still mounted.
                _wait(written, spec, asked, lambda: written.wait_for_drain(0))
                _upload_the_rest(written, spec, asked)
    else:
        with _unmount_in_the_end(mount(spec)) as served:
            ready()
            _wait(served, spec, asked)
    return exits.OK


@contextmanager
def _presence(settings: Settings, spec: MountSpec) -> Generator[None]:
    """A row among the workers, where several hosts share a database: what it needs takes memory."""
    if settings.uses_sqlite:
        yield
        return
    from seqferry.engine.mounting import activity_of
    from seqferry.service.presence import Presence
    from seqferry.service.share_answers import ShareAnswers

    assert spec.cache is not None  # see check_writable
    with Presence(settings, "gateway", lambda: activity_of(spec)) as presence, ShareAnswers(presence, spec.cache):
        yield


def _tables(settings: Settings) -> Path:
    folder = settings.working_dir()
    if folder is None:
        raise ConfigError("A writable mount needs a writable state folder: name one with --state-dir.")
    return folder / _TABLES


def _wait(
    served: _ServedFolder, spec: MountSpec, asked: list[int], has_ended: Callable[[], bool] = lambda: False
) -> None:
    """Wait until the folder is unmounted, by another program or since a signal or the end of its share asks for it.

    Args:
        has_ended: true when what is served takes no writes any more.
    """
    announced = 0
    is_over = False
    while not served.wait(_LOOK):
        is_last = not is_over and has_ended()
        if len(asked) > announced or is_last:
            announced = len(asked)
            is_over = is_over or is_last
            try:
                served.unmount()
            except OSError as error:
                # A folder that is served is better than a dead one. The next signal repeats the attempt.
                _log(spec, str(error))


def _upload_the_rest(served: _WrittenFolder, spec: MountSpec, asked: list[int]) -> None:
    """Upload what is not in the bucket yet; the next signal leaves it in the cache."""
    announced = len(asked)
    served.drain()
    if served.wait_for_drain(_LOOK):
        return
    _log(spec, "unmounted; pending uploads continue until all files are in the bucket, or until another signal")
    while not served.wait_for_drain(_LOOK):
        if len(asked) > announced:
            _log(spec, f"ended; the next mount with the cache {spec.cache} uploads the rest")
            return


@contextmanager
def _unmount_in_the_end(served: _Folder) -> Generator[_Folder]:
    try:
        yield served
    except BaseException:
        with contextlib.suppress(OSError):
            served.unmount()
        raise


def serve_in_background(spec: MountSpec, state_dir: str | None) -> None:
    """Serve in a process of its own; returns when the folder can be used.

    Raises:
        ConfigError: the folder cannot be mounted, for the reason in the text.
    """
    folder = Settings.load(state_dir=state_dir, with_tables=False).working_dir()
    log = None if folder is None else folder / _LOG
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve_detached(spec, state_dir, writing, log)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    if not said:
        os.waitpid(child, 0)
        where = "mount it with --foreground to see why" if log is None else f"see the end of {log}"
        raise ConfigError(f"The process that serves {spec.directory} has ended: {where}.")
    answer = json.loads(said)
    if "error" in answer:
        os.waitpid(child, 0)
        error = ConfigError(answer["error"])
        error.exit_code = answer["exit_code"]
        raise error


def _serve_detached(spec: MountSpec, state_dir: str | None, writing: int, log: Path | None) -> NoReturn:
    """Serve in the detached process: report the start to the waiting command, and end by ``os._exit``."""
    code = exits.FAILED

    def report(**answer: Any) -> None:
        os.write(writing, json.dumps(answer).encode())
        os.close(writing)

    is_reported = False

    def ready() -> None:
        nonlocal is_reported
        is_reported = True
        # Where the command that waits is gone, this fails, and nothing stays mounted.
        report(ok=True)

    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDONLY)
        lines = _open_log(log)
        for source, target in ((nothing, 0), (lines, 1), (lines, 2)):
            os.dup2(source, target)
        # What was inherited (a lock of flock(1), a pipe) would be held for as long as the folder is mounted.
        os.closerange(3, writing)
        os.closerange(writing + 1, _MOST_DESCRIPTORS)
        code = serve(spec, state_dir, ready)
    except SeqferryError as error:
        if is_reported:
            _log(spec, error.message)
        else:
            report(error=error.message, exit_code=error.exit_code)
    except BaseException as error:  # noqa: BLE001 - the edge of the process
        _log(spec, repr(error))
    os._exit(code)


def _open_log(log: Path | None) -> int:
    if log is None:
        return os.open(os.devnull, os.O_WRONLY)
    return private_files.open_private(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _log(spec: MountSpec, message: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {spec.directory}: {message}", file=sys.stderr, flush=True)


def resolve_path(path: Path) -> Path:
    """Path as the system's table of mounts names it. Works where the folder is a mount whose process has died."""
    return Path(os.path.realpath(path))
