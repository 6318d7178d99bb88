"""Files that a share has acknowledged, and the operations that clients do on them by chance."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from chaos.shares.access import Access

_MIB: Final = 1024 * 1024
_SECOND: Final = 1_000_000_000
_TOP_NAMES: Final = 40
_FOLDER_NAMES: Final = 5
_MOST_FOLDERS: Final = 25
_MODES: Final = (0o644, 0o600, 0o755, 0o640, 0o444 | 0o200)


@dataclass(frozen=True)
class Scenario:
    """What the clients of a run do.

    Attributes:
        shows: one line for people.
        clients: number of clients. More than one have a tree each, and one that they share.
        has_folders: files are in folders, which are made, renamed and removed.
        is_mount: the share is a folder that is mounted to be written, not served over NFS.
        largest: bytes of the largest files.
        cache_disk: bytes of the disk of the cache; None: the disk of the machine.
    """

    shows: str
    clients: int = 1
    has_folders: bool = False
    is_mount: bool = False
    largest: int = 10 * _MIB
    cache_disk: int | None = None


SCENARIOS: Final[dict[str, Scenario]] = {
    "flat": Scenario("files in one folder"),
    "folders": Scenario("folders that are renamed", has_folders=True),
    "clients": Scenario("three clients, each with its folder and one of all", clients=3, has_folders=True),
    "mount": Scenario("a writable mount", is_mount=True, has_folders=True),
    "small-disk": Scenario("a cache on a disk of 48 MiB", largest=6 * _MIB, cache_disk=48 * _MIB),
}

_OF_FILES: Final = {
    "write": 26, "write the same size and time": 12, "write a part": 14, "append": 6, "truncate": 6, "rename": 10,
    "replace by rename": 4, "remove": 6, "mode": 5, "time": 5, "read": 8,
}  # fmt: skip
_OF_FOLDERS: Final = {"make folder": 6, "rename folder": 12, "remove folder": 4}


@dataclass
class File:
    """What a file has to be. Times are nanoseconds since the epoch."""

    body: bytes
    mode: int | None = None
    """None: nothing has stated one."""
    modified: tuple[int, int] | None = None
    """The first and the last time that it may have; None: nothing has stated one."""


class Done(Protocol):
    """Repeats a call until it is acknowledged.

    Args:
        is_name_gone: the call takes a name away. When it is asked again, that the name is not there says that the first
            one was carried out.
        is_name_there: the same of a name that the call makes.
        loses_commits: a kill amid the call may have lost writes that were not committed yet.

    Returns:
        The times before the call and after it, in nanoseconds since the epoch.
    """

    def __call__(
        self,
        call: Callable[[], object],
        *,
        is_name_gone: bool = False,
        is_name_there: bool = False,
        loses_commits: bool = False,
    ) -> tuple[int, int]: ...


@dataclass
class Tree:
    """Files below one folder of a share (``top``, with a slash, or empty), and the chance that changes them.

    The operations follow from the seed alone, whichever clients do them: one is done at a time.
    """

    top: str
    scenario: Scenario
    rng: random.Random
    files: dict[str, File] = field(default_factory=dict[str, File])
    folders: set[str] = field(default_factory=set[str])
    has_names_again: bool = True
    """Names of folders that were removed or renamed come again. Where the server shows folders without objects on,
    they would be there."""
    unsure: set[str] = field(default_factory=set[str])
    """Paths of an operation that failed, which is a finding: what is there is not known any more."""
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self) -> tuple[str, list[str]]:
        """The next operation and its paths, relative to the top of the share."""
        weights = {**_OF_FILES, **(_OF_FOLDERS if self.scenario.has_folders else {})}
        [kind] = self.rng.choices(list(weights), list(weights.values()))
        if (changed := self._draw_folders(kind)) is not None:
            return changed
        kind = "write" if kind in _OF_FOLDERS else kind
        if not self.files or (kind == "write" and len(self.files) < _TOP_NAMES):
            return "write", [self._some_name()]
        one = self.rng.choice(sorted(self.files))
        if kind == "rename":
            return kind, [one, self._some_name(is_free=True)]
        if kind == "replace by rename":
            other = self.rng.choice(sorted(self.files))
            return ("read", [one]) if other == one else (kind, [one, other])
        return kind, [one]

    def _draw_folders(self, kind: str) -> tuple[str, list[str]] | None:
        """An operation on folders, if it is to be one and there are some to be changed."""
        if kind not in _OF_FOLDERS:
            return None
        chosen = sorted(one for one in self.folders if kind == "rename folder" or not self._below(one))
        if kind == "make folder" or not chosen:
            free = self._free_folders()
            return ("make folder", [self.rng.choice(free)]) if free else None
        one = self.rng.choice(chosen)
        if kind == "remove folder":
            return kind, [one]
        free = self._free_folders(but=one)
        return (kind, [one, self.rng.choice(free)]) if free else None

    def do(self, kind: str, paths: list[str], access: Access, done: Done) -> int:
        """Carry out one operation, and know of it when it is acknowledged.

        Returns:
            Number of acknowledged calls.

        Raises:
            AssertionError: what is read is not what was acknowledged.
        """
        rng, path = self.rng, paths[0]
        file = self.files.get(path)
        if kind == "write":
            self._write(path, rng.randbytes(self._size()), access, done)
        elif kind in {"make folder", "remove folder", "rename folder"}:
            self._change_folders(kind, paths, access, done)
        elif file is None:
            raise KeyError(path)
        elif kind == "write the same size and time":
            # As `cp -p` and `rsync -a` do with a file that has changed in its bytes alone.
            instant = file.modified[0] if file.modified is not None and file.modified[0] == file.modified[1] else None
            self._write(path, rng.randbytes(len(file.body)), access, done)
            self._set_time(path, instant or self._instant(), access, done)
            return 2
        elif kind in {"write a part", "append"}:
            at = len(file.body) if kind == "append" else rng.randrange(len(file.body) + 1)
            part = rng.randbytes(rng.randrange(1, 20_000))
            low, high = self._put(path, part, at, access, done)
            file.body = file.body[:at] + part + file.body[at + len(part) :]
            file.modified = (low, high)
        elif kind == "truncate":
            size = rng.randrange(len(file.body) + 5000)
            times = done(lambda: access.truncate(path, size))
            if size != len(file.body):
                file.modified = times
            else:
                file.modified = file.modified and (file.modified[0], max(file.modified[1], times[1]))
            file.body = file.body[:size].ljust(size, b"\0")
        elif kind in {"rename", "replace by rename"}:
            done(lambda: access.rename(path, paths[1]), is_name_gone=True)
            self.files[paths[1]] = self.files.pop(path)
        elif kind == "remove":
            done(lambda: access.remove(path), is_name_gone=True)
            del self.files[path]
        elif kind == "mode":
            mode = rng.choice(_MODES)
            done(lambda: access.set_mode(path, mode))
            file.mode = mode
        elif kind == "time":
            self._set_time(path, self._instant(), access, done)
        else:
            self._read(path, file, access, done)
        return 1

    def give_up(self, paths: list[str]) -> None:
        """Forget what an operation that failed has touched."""
        for path in paths:
            self.unsure.add(path)
            for name in [one for one in (*self.files, *self.folders) if one == path or one.startswith(f"{path}/")]:
                self.files.pop(name, None)
                self.folders.discard(name)

    def is_unsure(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one}/") for one in self.unsure)

    # --- operations ---

    def _put(self, path: str, body: bytes, at: int | None, access: Access, done: Done) -> tuple[int, int]:
        is_synchronous = self.rng.random() < 0.5
        return done(
            lambda: access.write(path, body, at=at, is_synchronous=is_synchronous),
            loses_commits=access.loses_commits and not is_synchronous,
        )

    def _write(self, path: str, body: bytes, access: Access, done: Done) -> None:
        before = self.files.get(path)
        times = self._put(path, body, None, access, done)
        # A file that has stated no mode keeps that when its bytes are written again.
        self.files[path] = File(body, before.mode if before is not None else 0o644, times)

    def _set_time(self, path: str, instant: int, access: Access, done: Done) -> None:
        done(lambda: access.set_modified(path, instant))
        self.files[path].modified = (instant, instant)

    def _read(self, path: str, file: File, access: Access, done: Done) -> None:
        found: list[bytes] = []
        done(lambda: found.append(access.read(path)))
        if found[-1] != file.body:
            raise AssertionError(f"read through the share: {difference(file.body, found[-1])}")

    def _change_folders(self, kind: str, paths: list[str], access: Access, done: Done) -> None:
        if kind == "make folder":
            done(lambda: access.make_folder(paths[0]), is_name_there=True)
            self.folders.add(paths[0])
        elif kind == "remove folder":
            done(lambda: access.remove_folder(paths[0]), is_name_gone=True)
            self.folders.remove(paths[0])
        else:
            old, new = paths
            done(lambda: access.rename(old, new), is_name_gone=True)
            self.files = {self._moved(name, old, new): file for name, file in self.files.items()}
            self.folders = {self._moved(name, old, new) for name in self.folders}

    # --- chance ---

    def _size(self) -> int:
        rng, chance = self.rng, self.rng.random()
        if chance < 0.05:
            return 0
        if chance < 0.30:
            return rng.randrange(1, 300)
        if chance < 0.75:
            return rng.randrange(300, 100_000)
        if chance < 0.92:
            return rng.randrange(100_000, 2 * _MIB)
        return rng.randrange(self.scenario.largest * 3 // 4, self.scenario.largest)

    def _instant(self) -> int:
        """A time to the microsecond, as the protocol of clients has it."""
        return self.rng.randrange(1_000_000_000, 1_700_000_000) * _SECOND + self.rng.randrange(1_000_000) * 1000

    def _some_name(self, *, is_free: bool = False) -> str:
        """The path of a file, new or not. Names that were removed come again."""
        folders = ["", *(f"{one}/" for one in sorted(self.folders))]
        while True:
            folder = self.rng.choice(folders) or self.top
            name = f"{folder}f{self.rng.randrange(_TOP_NAMES):02d}"
            if self.is_unsure(name) or (is_free and name in self.files):
                continue
            return name

    def _free_folders(self, but: str | None = None) -> list[str]:
        """Paths of folders that are not there, at most two deep, into which ``but`` can be renamed."""
        if len(self.folders) >= _MOST_FOLDERS:
            return []
        numbers = range(_FOLDER_NAMES) if self.has_names_again else [self.count + _FOLDER_NAMES]
        tops = [one for one in self.folders if "/" not in one[len(self.top) :]]
        above = [] if but is not None and self._has_folders(but) else [f"{one}/" for one in sorted(tops) if one != but]
        paths = [f"{folder}d{number}" for folder in (self.top, *above) for number in numbers]
        return [one for one in paths if one not in self.folders and not self.is_unsure(one)]

    def _has_folders(self, folder: str) -> bool:
        return any(one.startswith(f"{folder}/") for one in self.folders)

    def _below(self, folder: str) -> bool:
        return any(one.startswith(f"{folder}/") for one in (*self.files, *self.folders))

    @staticmethod
    def _moved(name: str, old: str, new: str) -> str:
        return new + name[len(old) :] if name == old or name.startswith(f"{old}/") else name


def difference(expected: bytes, found: bytes) -> str:
    """What distinguishes two contents, in a line."""
    if len(expected) != len(found):
        return f"{len(found)} bytes, acknowledged were {len(expected)}"
    first = next((at for at, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other), None)
    count = sum(one != other for one, other in zip(expected, found, strict=True))
    return f"{count} of {len(expected)} bytes differ, the first at {first}"
