"""Limits of this process that bound the engine: open files and memory."""

from __future__ import annotations

import logging
import resource
from typing import Final

from seqferry.model.errors import ConfigError
from seqferry.settings import memory_limits

log: Final = logging.getLogger("seqferry.engine")

_OTHER_FILES: Final = 256
"""Open files besides connections to the storage: databases, logs, HTTP clients of ``serve``."""

_FEWEST_FILES: Final = 64
"""Open files with which one object at a time is still copied; below, some library fails at a random place."""

_ALL_FILES: Final = 65_536
"""More open files than any process here has use for; some programs loop over all that are allowed."""


def open_files() -> int:
    """Number of files that this process may open, after raising the limit as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ALL_FILES if hard == resource.RLIM_INFINITY else min(hard, _ALL_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _ALL_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # macOS names no limit and still has one.
        return soft
    return wanted


def plan_process_memory(memory: int, requests: int) -> memory_limits.MemoryPlan:
    """Buffers and requests in flight that fit into this process's memory; logs if they are fewer than requested."""
    room = memory_limits.find_available()
    found = memory_limits.plan_memory(room, resident=memory_limits.resident(), memory=memory, requests=requests)
    requests = min(requests, memory // memory_limits.BUFFERS_PER_REQUEST)
    if room is not None and (found.memory, found.requests) != (memory, requests):
        log.info(
            "%d MiB of buffers and %d requests in flight instead of %d MiB and %d: %d MiB are left of %s (%d MiB)",
            found.memory >> 20, found.requests, memory >> 20, requests,
            room.free >> 20, room.cause, room.limit >> 20,
        )  # fmt: skip
    return found


def files_for_requests(max_requests: int) -> int:
    """Requests in flight for which this process may open files, after raising the limit as far as it may.

    Raises:
        ConfigError: so few files may be open that nothing works.
    """
    limit = open_files()
    if limit < _FEWEST_FILES:
        raise ConfigError(
            f"This process may open {limit} files, and needs {_FEWEST_FILES}: connections, files and the database. "
            "Raise its limit, as with: ulimit -n 65536."
        )
    files = max(limit - _OTHER_FILES, 1)
    if files < max_requests:
        log.info(
            "%d requests in flight instead of %d: no more files may be open (raise it with ulimit -Hn)",
            files,
            max_requests,
        )
    return files
