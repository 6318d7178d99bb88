"""Errors of a system that gives a process no more: memory, threads, open files, room on a disk."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final

from seqferry.model.errors import ConfigError

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_MOST_CAUSES: Final = 20
"""Errors in one chain that are looked at: a chain may be a ring."""


def shortage(error: BaseException) -> ConfigError | None:
    """The error for a person where this one, or one that led to it, is the system's refusal; None for all others."""
    for one in _chain(error):
        if isinstance(one, MemoryError) or (isinstance(one, RuntimeError) and "can't start new thread" in str(one)):
            return _no_memory()
        if not isinstance(one, OSError):
            continue
        if one.errno == errno.ENOMEM:
            return _no_memory()
        if one.errno in _FILES:
            return ConfigError("This process may open no more files. Raise its limit, as with: ulimit -n 65536.")
        if one.errno in _DISK and one.filename is not None:
            return ConfigError(
                f"Cannot write {one.filename}: {one.strerror}. Make room there, or choose another folder with "
                "--state-dir, or with TMPDIR for temporary files."
            )
    return None


def _no_memory() -> ConfigError:
    return ConfigError(
        "The system gives this process no more memory or threads. Raise its limits (ulimit -v, ulimit -u, the memory "
        "of the job or container), or lower --memory and --max-requests. Recorded transfers go on with seqferry resume."
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
