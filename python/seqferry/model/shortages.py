"""Errors of exhausted system resources: memory, threads, open files, disk space."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

from seqferry.model.errors import ConfigError

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_TOO_MANY: Final = os.strerror(errno.EMFILE)
_MOST_CAUSES: Final = 20
"""Errors of one chain that are read: a chain may be a ring."""


def find_shortage(error: BaseException) -> ConfigError | None:
    """The user's error for a refusal by the system in the chain of ``error``; None where there is none."""
    for one in _chain(error):
        if isinstance(one, MemoryError) or (isinstance(one, RuntimeError) and "can't start new thread" in str(one)):
            return _no_memory()
        if _TOO_MANY in str(one):  # as libraries and the engine pass it on
            return open_files_error()
        if not isinstance(one, OSError):
            continue
        if one.errno == errno.ENOMEM:
            return _no_memory()
        if one.errno in _FILES:
            return open_files_error()
        if one.errno in _DISK and one.filename is not None:
            return ConfigError(
                f"Cannot write {one.filename}: {one.strerror}. Make room there, or choose another folder with "
                "--state-dir, or with TMPDIR for temporary files."
            )
    return None


def open_files_error() -> ConfigError:
    """The error for a process that has reached its limit of open files."""
    return ConfigError("This process has reached its limit of open files. Raise it, for example with: ulimit -n 65536.")


def can_open_files(files: int) -> bool:
    """False when this process could not open so many more files now: SQLite gives no reason of its own."""
    opened: list[int] = []
    try:
        opened += (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(files))
    except OSError as why:
        return why.errno not in _FILES
    finally:
        for each in opened:
            os.close(each)
    return True


def _no_memory() -> ConfigError:
    return ConfigError(
        "The system gives this process no more memory or threads. Raise its limits (ulimit -v, ulimit -u, the memory "
        "of the job or container), or lower --memory and --max-requests. Continue with seqferry resume."
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
