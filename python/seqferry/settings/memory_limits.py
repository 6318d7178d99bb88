"""Memory that this process may take, and the buffers and requests in flight that fit in it.

Three things limit a process: the memory of the machine, its control groups (Docker, Kubernetes, Slurm, systemd) with
all groups around them, and the limits of ``ulimit`` (``-v``: SGE's ``h_vmem``). The least of them counts.
"""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

_MIB: Final = 1 << 20

PROCESS: Final = 128 * _MIB
"""A process without buffers and connections: Python with all its modules, the database, objects in progress
(docs/develop/performance/memory.md: 81 MiB for 2,000 small copies, and what 1,536 objects in progress take)."""

ADDRESSES: Final = 256 * _MIB
"""Addresses, which ``ulimit -v`` and ``-d`` count, that are reserved and never used: stacks of threads, arenas."""

REQUEST: Final = 80 << 10
"""One request in flight: 40 to 50 KiB for its connection (docs/develop/performance/memory.md), and a socket."""

BUFFERS_PER_REQUEST: Final = 16 << 10
"""Bytes of buffers for each request in flight: where buffers are to be small, so are all connections together."""

LEAST_BUFFERS: Final = 16 * _MIB
"""Two parts of 8 MiB: the least that ``--memory`` takes."""

LEAST_REQUESTS: Final = 16
"""As few requests are slow, and fewer do not save memory that counts."""

_STACK: Final = 2 * _MIB
"""Stack of a thread of Python: a quarter of the usual one, and sixteen times that of musl."""
_ENGINE_ARENA: Final = 32 * _MIB
"""Addresses that the engine's allocator reserves in one step; it reserves more when they are used."""
_PURGE_MS: Final = 100
"""Milliseconds after which freed memory is given back. A million small objects peak at 174 MiB then, and at 190 after
the second that is the default; an upload of 1 GiB takes as much CPU."""
_PURGE_MS_OF_MOUNT: Final = 10
"""Reading 256 MiB by a mount peaks at 133 to 137 MiB then, and at 139 to 172 by default, as fast. An upload takes 6 %
more CPU, since it faults its buffers in again."""
_COLLECTIONS: Final = (20_000, 10, 10)
"""New objects before a collection of the young ones, and such collections before one of older objects."""
_M_ARENA_MAX: Final = -8
"""The parameter of ``mallopt`` in glibc, from its malloc.h."""
_ADDRESSES: Final = resource.RLIMIT_AS
_DATA: Final = resource.RLIMIT_DATA

_ANY: Final = 65_535
"""Requests where nothing limits them: a machine has no more ports."""

_NO_LIMIT: Final = 1 << 60
"""cgroup v1 writes a number near 2^63 for no limit."""


class AvailableMemory(NamedTuple):
    """Bytes that this process can still allocate, and the cause of the limit."""

    free: int
    limit: int
    cause: str
    counts_addresses: bool = False


class MemoryPlan(NamedTuple):
    """Bytes of buffers and requests in flight that fit."""

    memory: int
    requests: int
    most_requests: int
    """Largest number of requests that would fit."""


def plan_memory(room: AvailableMemory | None, *, resident: int, memory: int, requests: int) -> MemoryPlan:
    """Buffers and requests that fit into ``room``, neither more than requested.

    What the process will take without them comes off first. Buffers get a third of the rest, requests what is left:
    a copy inside the storage needs connections alone, and a transfer that needs buffers needs few connections.

    Args:
        room: of the process as it is now; None: nothing limits it.
        resident: bytes that the process has now.
        memory: requested bytes of buffers.
        requests: requested limit of requests in flight.
    """
    allowed = memory // BUFFERS_PER_REQUEST
    requests = min(requests, allowed)
    if room is None:
        return MemoryPlan(memory, requests, min(allowed, _ANY))
    still_to_come = max(PROCESS - resident, PROCESS // 4) + (ADDRESSES if room.counts_addresses else 0)
    left = max(room.free - still_to_come, 0)
    buffers = min(memory, max(left // 3, left - requests * REQUEST, LEAST_BUFFERS))
    most = min(max((left - buffers) // REQUEST, LEAST_REQUESTS), allowed)
    return MemoryPlan(buffers, min(requests, most), most)


def find_available(root: Path = Path("/")) -> AvailableMemory | None:
    """The least room that this process has; None where nothing says it.

    Args:
        root: of the file system, for tests.
    """
    found = [*_machine(root), *_control_groups(root), *_resource_limits(root)]
    return min(found, key=lambda one: one.free, default=None)


def save_addresses() -> None:
    """Reserve few addresses where ``ulimit`` counts them; to be called before threads and the engine are there.

    By default each thread reserves 8 MiB for its stack and 64 MiB for an arena of malloc, and the engine 1 GiB.
    """
    if all(resource.getrlimit(number)[0] == resource.RLIM_INFINITY for number in (_ADDRESSES, _DATA)):
        return
    # Imported here: few processes have such a limit.
    import threading

    share_arena()

    threading.stack_size(_STACK)
    os.environ.setdefault("MIMALLOC_ARENA_RESERVE", str(_ENGINE_ARENA >> 10))


def share_arena() -> None:
    """Have all threads of Python share what malloc keeps; to be called before threads are there.

    By default each thread has an arena of its own, with freed memory that no other thread gets: some 4 MiB for each of
    the twenty threads of a worker.
    """
    # Imported here: short commands have no threads.
    import contextlib

    with contextlib.suppress(ImportError, OSError, AttributeError):  # a small Python, or another C library
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def collect_garbage_soon() -> None:
    """Find garbage as early as a process must that works for hours; commands collect later, since they end before.

    A million small objects peak at 190 MiB then, and at 219 otherwise, as fast.
    """
    gc.freeze()  # modules live as long as the process
    gc.set_threshold(*_COLLECTIONS)


def return_memory_soon(*, mount: bool = False) -> None:
    """Have the engine's allocator give back freed memory soon; to be called before the engine is there.

    By default it holds it for a second, in which a process that reads fast takes new memory beside it.
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", str(_PURGE_MS_OF_MOUNT if mount else _PURGE_MS))


def resident(root: Path = Path("/")) -> int:
    """Bytes of memory that this process has now; 0 where nothing says it."""
    return _status(root).get("VmRSS", 0)


def _machine(root: Path) -> Iterator[AvailableMemory]:
    facts = _kibibytes(root / "proc/meminfo")
    if "MemAvailable" in facts and "MemTotal" in facts:
        yield AvailableMemory(facts["MemAvailable"], facts["MemTotal"], "the memory of this machine")


def _resource_limits(root: Path) -> Iterator[AvailableMemory]:
    status = _status(root)
    for number, option, used in (
        (_ADDRESSES, "ulimit -v", "VmSize"),
        (_DATA, "ulimit -d", "VmData"),
    ):
        soft, _ = resource.getrlimit(number)
        if soft != resource.RLIM_INFINITY and used in status:
            yield AvailableMemory(max(soft - status[used], 0), soft, option, counts_addresses=True)


def _control_groups(root: Path) -> Iterator[AvailableMemory]:
    for mount, version, below in memory_mounts(root):
        # A group that is not shown here (in a container) has its limit at the mount.
        folder = mount.joinpath(*below.parts)
        for group in (folder, *folder.parents):
            read = _group_of_version_2 if version == 2 else _group_of_version_1
            yield from read(group)
            if group == mount:
                break


def memory_mounts(root: Path = Path("/")) -> Iterator[tuple[Path, int, PurePosixPath]]:
    """Mounted hierarchies that count memory: mount point, version, and this process's group below it."""
    groups: dict[int, str] = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            groups[2] = path
        elif "memory" in controllers.split(","):
            groups[1] = path
    for line in _lines(root / "proc/self/mountinfo"):
        before, separator, after = line.partition(" - ")
        fields, (kind, *more) = before.split(" "), (after.split(" ") if separator else [""])
        if len(fields) < 5:
            continue
        version = {"cgroup2": 2, "cgroup": 1}.get(kind)
        if version is None or version not in groups or (version == 1 and "memory" not in more[-1].split(",")):
            continue
        shown, point = PurePosixPath(_unescape(fields[3])), _unescape(fields[4])
        own = PurePosixPath(groups[version])
        is_shown = own.is_relative_to(shown) and ".." not in own.parts
        yield root / point.lstrip("/"), version, own.relative_to(shown) if is_shown else PurePosixPath()


def _unescape(path: str) -> str:
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(escaped, character)
    return path


def _group_of_version_2(folder: Path) -> Iterator[AvailableMemory]:
    # Beyond memory.high the kernel slows a process down until it hardly moves.
    limits = [found for name in ("memory.max", "memory.high") if (found := _number(folder / name)) is not None]
    used = _number(folder / "memory.current")
    if limits and used is not None:
        yield _group(folder, min(limits), used, _facts(folder / "memory.stat"), "")


def _group_of_version_1(folder: Path) -> Iterator[AvailableMemory]:
    facts = _facts(folder / "memory.stat")
    limit = _number(folder / "memory.limit_in_bytes")
    used = _number(folder / "memory.usage_in_bytes")
    if limit is None or used is None:
        return
    # The least limit of this group and of all around it, also of those that a container does not see.
    limit = min(limit, facts.get("hierarchical_memory_limit", limit))
    if limit < _NO_LIMIT:
        yield _group(folder, limit, used, facts, "total_")


def _group(folder: Path, limit: int, used: int, facts: dict[str, int], prefix: str) -> AvailableMemory:
    # The kernel gives up pages of files before it kills.
    pages = facts.get(f"{prefix}inactive_file", 0) + facts.get(f"{prefix}active_file", 0)
    return AvailableMemory(max(limit - max(used - pages, 0), 0), limit, f"the control group {folder}")


def _status(root: Path) -> dict[str, int]:
    return _kibibytes(root / "proc/self/status")


def _kibibytes(path: Path) -> dict[str, int]:
    """Lines of the form ``Name:  123 kB``, in bytes."""
    found: dict[str, int] = {}
    for line in _lines(path):
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdecimal():
            found[name] = int(words[0]) << 10
    return found


def _facts(path: Path) -> dict[str, int]:
    """Lines of the form ``name 123``."""
    pairs = (line.split() for line in _lines(path))
    return {words[0]: int(words[1]) for words in pairs if len(words) == 2 and words[1].isdecimal()}


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
