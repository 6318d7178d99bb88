"""File systems of other kinds than the one that the tests run on, mounted from an image where that is allowed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SIZE: Final = 96 * 1024 * 1024

# How to make one on a device, how to mount that, and what makes a folder in it fold case where not all do.
_CASE_INSENSITIVE: Final = (
    (("mkfs.vfat", "{device}"), ("mount", "-t", "vfat", "-o", "utf8", "{device}", "{place}"), None),
    (("mkfs.exfat", "{device}"), ("mount", "-t", "exfat", "{device}", "{place}"), None),
    (("mkfs.exfat", "{device}"), ("mount.exfat-fuse", "{device}", "{place}"), None),
    (
        ("mkfs.ext4", "-q", "-O", "casefold", "{device}"),
        ("mount", "{device}", "{place}"),
        ("chattr", "+F", "{folder}"),
    ),
)


class NoFileSystemError(Exception):
    """No such file system can be mounted here; the text says why."""


@contextmanager
def case_insensitive(place: Path) -> Iterator[Path]:
    """An empty folder on a file system that is mounted at ``place`` (an empty folder as well) for the block.

    Raises:
        NoFileSystemError: no kind of file system that is tried can be mounted.
    """
    tried: list[str] = []
    folder, image = place / "folder", place.with_suffix(".image")
    with _device(image, _SIZE) as device:
        names = {"device": device, "place": str(place), "folder": str(folder)}
        for make, mount, change in _CASE_INSENSITIVE:
            try:
                _done(make, names)
                _done(mount, names)
            except NoFileSystemError as why:
                tried.append(str(why))
                continue
            try:
                folder.mkdir()
                if change is not None:
                    _done(change, names)
                (folder / "probe").touch()
                if (folder / "PROBE").exists():
                    (folder / "probe").unlink()
                    yield folder
                    return
                tried.append(f"`{make[0]}` made one that tells case apart")
            finally:
                subprocess.run(["umount", str(place)], check=True)
    raise NoFileSystemError("; ".join(tried))


@contextmanager
def small(place: Path, size: int) -> Iterator[Path]:
    """A file system of ``size`` bytes, mounted at ``place`` (an empty folder) for the block.

    Raises:
        NoFileSystemError: none can be mounted.
    """
    with _device(place.with_suffix(".image"), size) as device:
        names = {"device": device, "place": str(place)}
        _done(("mkfs.ext4", "-q", "-m", "0", "{device}"), names)
        _done(("mount", "{device}", "{place}"), names)
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)


@contextmanager
def _device(image: Path, size: int) -> Iterator[str]:
    with image.open("wb") as file:
        file.truncate(size)
    device = _done(("losetup", "--find", "--show", "{image}"), {"image": str(image)}).strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _done(command: Sequence[str], names: dict[str, str]) -> str:
    words = [word.format(**names) for word in command]
    if shutil.which(words[0]) is None:
        raise NoFileSystemError(f"{words[0]} is not installed")
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout).strip().partition("\n")[0]
        raise NoFileSystemError(f"`{command[0]}` failed: {said}")
    return ended.stdout
