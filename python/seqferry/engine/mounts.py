"""Mounted buckets: what to mount, which folders are mounted, and unmounting. Serving is the engine's."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.settings.share_writes import Writes
from seqferry.settings.shares import MOST_FREE

Freshness = Literal["ttl", "open", "frozen"]
FRESHNESS: Final[tuple[str, ...]] = get_args(Freshness)

_TYPES: Final = frozenset({"fuse", "fuse.seqferry"})
"""Types of our mounts in the system's table: root mounts without fusermount3, which adds the name."""
_SOURCE: Final = "s3://"
"""Beginning of the source of our mounts; those of other programs show their names there."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
"""Names that a bucket can have, including old ones with capitals. They never begin with a dot, as paths can."""

_STATS: Final = "user.seqferry.stats"
_HIDDEN: Final = "user.seqferry.hidden"
_TABLE: Final = Path("/proc/self/mountinfo")
_LIFETIME: Final = 60.0
DEFAULT_MEMORY: Final = 128 << 20
GATEWAY_MEMORY: Final = 512 << 20
_REQUESTS: Final = 256
_SMALLEST_MEMORY: Final = 16 << 20
"""Some reads of 1 MiB at a time."""
_SMALLEST_CACHE: Final = 1 << 20
"""Less keeps nothing: an object takes some KiB beside its blocks of 128 KiB."""


@frozen(kw_only=True)
class MountSpec:
    """Settings of a mount: its place, its folder, and its limits.

    Args:
        directory: absolute.
        lifetime: seconds for which listings are cached; None: without limit.
        memory: bytes for blocks; max_bandwidth: bytes per second, None for no limit.
        cache: a folder that keeps blocks and names beyond the process, up to ``max_cache_size`` bytes; None for no
            limit. With ``pin`` other objects never push out what this mount reads.
        manifest: a file that fixes names, sizes and versions.
        writable: writes go to ``cache`` first, and from there to the bucket. ``take_over``: also if the gateway of
            another cache has claimed the prefix. ``writes``: settings of the uploads; ``free_space``: limit of the
            bytes that are shown as free. These have no effect otherwise.
    """

    place: S3Location
    directory: Path
    lifetime: float | None = _LIFETIME
    freshness: Freshness = "ttl"
    memory: int = DEFAULT_MEMORY
    max_requests: int = _REQUESTS
    max_bandwidth: int | None = None
    cache: Path | None = None
    max_cache_size: int | None = None
    pin: bool = False
    manifest: Path | None = None
    writable: bool = False
    take_over: bool = False
    writes: Writes = field(default_factory=Writes)
    free_space: int = MOST_FREE
    allow_other: bool = False
    allow_non_empty: bool = False
    uid: int = field(default_factory=os.geteuid)
    gid: int = field(default_factory=os.getegid)
    file_mode: int = 0o644
    directory_mode: int = 0o755

    @property
    def archive(self) -> str | None:
        """The key of a tar archive that may be meant: a prefix otherwise."""
        return self.place.key if self.place.key.endswith(".tar") else None

    @property
    def prefix(self) -> str:
        """The prefix of the keys that are shown: empty, or with a slash at its end."""
        key = self.place.key
        return key if not key or key.endswith("/") else f"{key}/"


@frozen
class MountEntry:
    """A folder in the system's table. ``stats`` is None where its process does not answer (any more)."""

    directory: str
    source: str
    stats: dict[str, int] | None

    @property
    def hit_rate(self) -> float | None:
        """Share of the requested blocks that were in memory; None before the first read."""
        stats = self.stats or {}
        asked = stats.get("block_hits", 0) + stats.get("block_misses", 0)
        return stats["block_hits"] / asked if asked else None


def check_platform() -> None:
    """Raise ConfigError where there is no FUSE."""
    if sys.platform != "linux":
        raise ConfigError("seqferry mount needs Linux: on this system stage the data with seqferry cp instead.")
    if not Path("/dev/fuse").exists():
        raise ConfigError(
            "This machine has no /dev/fuse: load the kernel module with `modprobe fuse`, or start the container with "
            "--device /dev/fuse --cap-add SYS_ADMIN."
        )


def check_writable(spec: MountSpec) -> None:
    """Raise UsageError for settings that a mount which can be written does not obey."""
    if spec.cache is None:
        raise UsageError("--read-write needs a folder for what is written until it is in the bucket: --cache DIR.")
    refused = {
        "--pin": spec.pin,
        "--manifest": spec.manifest is not None,
        f"--consistency {spec.freshness}": spec.freshness != "ttl",
        "--no-sign-request": spec.place.anonymous,
        "--request-payer": spec.place.request_payer is not None,
        "an archive": spec.archive is not None,
    }
    for name in (name for name, is_given in refused.items() if is_given):
        raise UsageError(f"{name} is for mounts that are only read: leave it out, or leave --read-write out.")


def check_sizes(memory: int | None, cache_size: int | None) -> None:
    """Raise UsageError for a memory or a cache that is too small to work with; None for the defaults."""
    if memory is not None and memory < _SMALLEST_MEMORY:
        raise UsageError(f"--memory is {memory} bytes, and a mount needs at least 16MiB.")
    if cache_size is not None and cache_size < _SMALLEST_CACHE:
        raise UsageError(f"--max-cache-size is {cache_size} bytes, and a cache needs at least 1MiB: leave --cache out.")


def uri_of(text: str, prefix: str | None = None) -> str:
    """The address ``s3://bucket/prefix`` for itself, or for ``bucket`` and ``bucket/prefix`` as of mount-s3.

    Args:
        prefix: below that of ``text``.

    Raises:
        UsageError: the text names no bucket.
    """
    if "://" not in text and not text.lower().startswith("s3:"):
        remote, colon, path = text.partition(":")
        if colon and not text.startswith((".", "/")):
            # A remote of rclone and its path, or a bucket and its prefix for goofys and s3fs.
            path = path.strip("/")
            meant = [f"s3://{path}", f"s3://{remote}/{path}"] if path else [f"s3://{remote}"]
            raise UsageError(f"'{text}' is no S3 address; write what is meant: {' or '.join(meant)}.")
        if not _BUCKET.fullmatch(text.partition("/")[0]):
            raise UsageError(f"'{text}' names no bucket; write s3://bucket or s3://bucket/prefix.")
        text = f"s3://{text}"
    return f"{text.rstrip('/')}/{prefix.lstrip('/')}" if prefix else text


def parse_lifetime(text: str) -> float | None:
    """Seconds of ``60``, ``indefinite`` (None) or ``minimal`` (0).

    Raises:
        UsageError: the text has another form.
    """
    word = text.strip().lower()
    if word == "indefinite":
        return None
    if word == "minimal":
        return 0.0
    try:
        seconds = float(word.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 10**9:
        raise UsageError(f"'{text}' is no time for --metadata-ttl: write seconds, indefinite or minimal.")
    return seconds


def parse_mode(text: str) -> int:
    """Permissions written in octal digits.

    Raises:
        UsageError: the text has another form.
    """
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise UsageError(f"'{text}' is no mode: write octal digits, as 0644.")
    return mode


def list_mounts(*, ask: bool = True) -> list[MountEntry]:
    """Our mounts that this process can see; with ``ask`` also what each tells of itself."""
    return [
        MountEntry(directory, source, _json(_xattr(directory, _STATS)) if ask else None)
        for directory, source in _table()
    ]


def describe_hidden(directory: Path) -> str | None:
    """Number of keys hidden in folders read so far, and the names of some; None where the folder is no mount."""
    return _xattr(str(directory), _HIDDEN)


def is_mounted(directory: Path) -> bool:
    """True when a folder is one of our mounts. Does not touch it: one whose process has died would fail."""
    return any(found == str(directory) for found, _ in _table())


def unmount(directory: Path, *, force: bool = False) -> None:
    """Unmount a folder, also one whose process has died.

    With ``force`` a mount in use is detached: it disappears immediately, and ends when the last program closes it.

    Raises:
        ConfigError: the folder is not mounted by Seqferry, is in use, or may not be unmounted.
    """
    if not is_mounted(directory):
        raise ConfigError(f"{directory} is not mounted by seqferry: `seqferry mounts` lists the folders that are.")
    if os.geteuid() == 0:
        command = ["umount", *(["-l"] if force else []), "--", str(directory)]
    else:
        program = shutil.which("fusermount3") or shutil.which("fusermount")
        if program is None:
            raise ConfigError("fusermount3 is not installed (Debian: apt-get install fuse3).")
        command = [program, "-u", *(["-z"] if force else []), "--", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell, an absolute path
    if done.returncode == 0:
        return
    if "busy" in done.stderr.lower():
        raise ConfigError(
            f"{directory} is in use: close the programs in it (lsof +f -- {directory}), or add --force to detach it."
        )
    raise ConfigError(f"Cannot unmount {directory}: {done.stderr.strip()}.")


def _table() -> Iterator[tuple[str, str]]:
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, source, *_ = after.split(" ")
        if kind in _TYPES and source.startswith(_SOURCE):
            # A comma is escaped for fusermount3; mounts of root show the escape.
            yield _plain(before.split(" ")[4]), _plain(source).replace("\\,", ",")


def _plain(text: str) -> str:
    """Space, tab, newline and backslash stand in the table as octal numbers."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text


def _xattr(directory: str, name: str) -> str | None:
    if sys.platform != "linux":
        return None
    try:
        return os.getxattr(directory, name).decode()
    except OSError as error:
        # Its process has died, it is another user's, or it has gone meanwhile.
        if error.errno in {errno.ENOTCONN, errno.EACCES, errno.EPERM, errno.ENODATA, errno.ENOENT, errno.EIO}:
            return None
        raise


def _json(text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    found: Any = json.loads(text)
    return found
