"""The lock of the one worker of a state folder. The system frees it when the process ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import IO, Final

from seqferry.model.errors import ConfigError, WorkerBusyError
from seqferry.places import private_files

_NAME: Final = "worker.lock"
_LOOK_SECONDS: Final = 0.01
"""A process that only checks (``is_held``) holds the lock for much less."""


def acquire(state_dir: Path) -> IO[str]:
    """Acquire the lock; it is held until the file is closed.

    Raises:
        WorkerBusyError: another process holds it.
        ConfigError: the file cannot be used.
    """
    path = state_dir / _NAME
    file = _open(path)
    if not _try_lock(file, path):
        time.sleep(_LOOK_SECONDS)
        if not _try_lock(file, path):
            file.seek(0)
            holder = file.read(32).strip()
            file.close()
            who = f" (process {holder})" if holder.isdecimal() else ""
            raise WorkerBusyError(
                f"Another worker{who} is at work in the state folder {state_dir}. It does what is submitted; "
                "stop it first to take over, or give another folder with --state-dir or SEQFERRY_STATE_DIR."
            )
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def is_held(state_dir: Path) -> bool:
    """True when a process, also this one, is the worker of the folder, or when that is unknown."""
    try:
        with os.fdopen(private_files.open_private(state_dir / _NAME, os.O_RDONLY), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _open(path: Path) -> IO[str]:
    try:
        return os.fdopen(private_files.open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "a+", encoding="ascii")
    except OSError as why:
        raise ConfigError(
            f"Cannot open the lock file {path}: {why.strerror or why}. Remove it, or give another folder with "
            "--state-dir or SEQFERRY_STATE_DIR."
        ) from None


def _try_lock(file: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as why:
        if why.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        file.close()
        raise ConfigError(
            f"Cannot lock {path}: {why.strerror or why}. The state folder has to be on a file system that locks "
            "files; give another one with --state-dir or SEQFERRY_STATE_DIR."
        ) from None
    return True
