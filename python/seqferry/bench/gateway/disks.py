"""Folders that are to be compared: that each can be used, and that no two are on the same disk or share."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.formatting import printable, size
from seqferry.model.frozen import frozen

MOST_FOLDERS: Final = 8
_NETWORK: Final = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "lustre", "glusterfs", "beegfs")
"""Types of file systems whose source names what they are on."""
_BLOCK_DEVICES: Final = Path("/sys/dev/block")
_DEPTH: Final = 16
"""Layers of block devices at most: partition, RAID, LVM, encryption."""
_PROBE: Final = 4096


@frozen
class Folder:
    """A folder that is measured.

    Attributes:
        name: as it is shown: given as NAME=DIR, else the path.
        on: the disks or the share below it, as far as the system tells.
        takes_direct: its file system takes O_DIRECT.
    """

    name: str
    path: Path
    file_system: str
    source: str
    on: frozenset[str]
    takes_direct: bool


def folders(written: Sequence[str], needed: int) -> list[Folder]:
    """The facts about the given folders; nothing stays written.

    Args:
        needed: bytes that must be free in each.

    Raises:
        UsageError: one cannot be used or has no room, or two are on the same disk.
    """
    if not written:
        raise UsageError("Name at least one folder: seqferry bench gateway DIR...")
    if len(written) > MOST_FOLDERS:
        raise UsageError(f"{len(written)} folders are too many for one comparison; at most {MOST_FOLDERS}.")
    found = [_folder(each, needed) for each in written]
    for place, one in enumerate(found):
        for other in found[:place]:
            if shared := one.on & other.on:
                raise UsageError(
                    f"{printable(str(other.path))} and {printable(str(one.path))} are on the same disk "
                    f"({printable(min(shared))}): there is nothing to compare. Name folders on different ones."
                )
            if one.name == other.name:
                raise UsageError(f"Two folders are named {printable(one.name)}. Name them apart, as fast=DIR slow=DIR.")
    return found


def _folder(written: str, needed: int) -> Folder:
    name, _, rest = written.partition("=")
    path = Path(rest if rest and name and "/" not in name else written)
    named = name if path != Path(written) else written
    try:
        resolved = path.resolve(strict=True)
        free = shutil.disk_usage(resolved).free
    except OSError as why:
        raise UsageError(f"{printable(str(path))}: {why.strerror or why}. Name a folder that is there.") from None
    if not resolved.is_dir():
        raise UsageError(f"{printable(str(path))} is no folder.")
    if free < needed:
        raise UsageError(
            f"{printable(str(path))} has {size(free)} free, and {size(needed)} are needed. Give a smaller --size."
        )
    try:
        takes_direct = _takes_direct(resolved)
    except OSError as why:
        raise UsageError(f"{printable(str(path))} cannot be written: {why.strerror or why}.") from None
    kind, source, device = _find_mount(resolved)
    return Folder(named, resolved, kind, source, _below(kind, source, device), takes_direct)


def _takes_direct(folder: Path) -> bool:
    """Write a file, and see whether it can be opened past the page cache; it is gone at the end.

    Raises:
        OSError: the folder cannot be written.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seqferry-bench-") as file:
        file.write(bytes(_PROBE))
        file.flush()
        try:
            os.close(os.open(file.name, os.O_WRONLY | os.O_DIRECT))
        except (OSError, AttributeError) as why:
            if isinstance(why, AttributeError) or why.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise
    return True


def _find_mount(folder: Path) -> tuple[str, str, int]:
    """Type and source of the mount that holds the folder, and the device number of the folder."""
    device = folder.stat().st_dev
    best = ("", "unknown", "")
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return best[1], best[2], device
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, ends = left.split(), right.split()
        if len(fields) < 5 or len(ends) < 2:
            continue
        point = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        # Of mounts on one another the last one is seen.
        if folder.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, ends[0], ends[1])
    return best[1], best[2], device


def _below(kind: str, source: str, device: int) -> frozenset[str]:
    """Disks of the file system; of a share its address; else the device number."""
    if kind.startswith(_NETWORK) and source:
        return frozenset({source.rstrip("/")})
    found = whole_disks(_number(device))
    if not found and source.startswith("/dev/"):
        # File systems as btrfs have a device number of their own, and name a device of theirs.
        try:
            found = whole_disks(_number(Path(source).stat().st_rdev))
        except OSError:
            found = set[str]()
    return frozenset(found or {f"device {_number(device)}"})


def _number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def whole_disks(number: str, depth: int = _DEPTH) -> set[str]:
    """Whole disks below a block device: those of a partition, or of the parts of a volume."""
    try:
        device = (_BLOCK_DEVICES / number).resolve(strict=True)
    except OSError:
        return set[str]()
    if (device / "partition").exists():
        device = device.parent
    try:
        parts = [(part / "dev").read_text().strip() for part in (device / "slaves").iterdir()]
    except OSError:
        parts = []
    if not parts or depth == 0:
        return {device.name}
    found = set[str]()
    for part in parts:
        found |= whole_disks(part, depth - 1) or {part}
    return found
