"""``seqferry mounts``."""

from __future__ import annotations

from typing import Any, Final

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.engine.mounts import (
    MountEntry,
    list_mounts,
)

_NO_LIMIT: Final = 2**64 - 1


"""Limit that the engine reports for a cache without one."""


def mounts(as_json: options.Json = False) -> int:
    """List mounts with their source, memory, hit rate and requests."""
    for found in list_mounts():
        if as_json:
            display.emit("mounted", directory=found.directory, source=found.source, **_facts(found))
            continue
        print(text.printable(f"{found.directory}  {found.source}"))
        print(f"  {_line(found)}")
    return exits.OK


def _facts(found: MountEntry) -> dict[str, Any]:
    if found.stats is None:
        return {"alive": False}
    # A cache without a limit has the largest number there is, which readers of JSON in other languages cannot hold.
    limit = found.stats["cache"]
    return {"alive": True, "hit_rate": found.hit_rate, **found.stats, "cache": None if limit == _NO_LIMIT else limit}


def _line(found: MountEntry) -> str:
    stats = found.stats
    if stats is None:
        return f"does not answer: its process has ended, or it is another user's (seqferry umount {found.directory})"
    rate = "-" if found.hit_rate is None else f"{found.hit_rate:.0%}"
    return (
        f"{stats['requests']} requests, {stats['bytes_wanted']} bytes wanted, {stats['bytes_fetched']} fetched, "
        f"hit rate {rate}, {stats['memory_used'] >> 20} of {stats['memory'] >> 20} MiB of memory, "
        + (f"{stats['cache_used'] >> 20} MiB of cache, " if stats["cache"] else "")
        + f"{stats['open_files']} open files, {stats['hidden']} hidden keys"
    )
