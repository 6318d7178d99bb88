"""Folders with everything in them that a file system can hold, and the comparison of two of them."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.buckets import odd_keys
from support.servers import Kind

_LONGEST_NAME: Final = 255
_SETTLED_NS: Final = 1_700_000_000 * 10**9
"""A time in the past: an upload waits for 2 seconds to look again at a file of these seconds, or of the future."""
LATEST_NS: Final = 2**31 * 10**9
_CHARACTERS: Final = (
    "abcdefghijklmnopqrstuvwxyz0123456789 .-_~!@#$%^&()[]{}=+,;'`\"*?<>|:äßéœøΩжש中文字🧬\t\u0301\u200b"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or link of a tree."""

    size: int
    sha256: str
    mtime_ns: int
    mode: int
    link: str | None = None


def is_path(key: str) -> bool:
    """True for a key that is a path below a folder on every file system that matters here."""
    segments = key.split("/")
    return all(0 < len(each.encode()) <= _LONGEST_NAME and each not in (".", "..") for each in segments)


def odd_names(kind: Kind) -> list[str]:
    """Odd keys that both a disk and a server of this kind take as they are."""
    keys = [key for key in odd_keys(kind) if is_path(key)]
    return [key for key in keys if not any(other.startswith(f"{key}/") for other in keys)]


def random_names(rng: random.Random, count: int, *, without: str = "") -> list[str]:
    """Returns ``count`` different paths of odd characters, a few folders deep, none the folder of another."""
    characters = [each for each in _CHARACTERS if each not in without]
    # The ending keeps folders apart from files that others put beside them.
    folders = [""] + [f"{''.join(rng.choices(characters, k=rng.randrange(1, 12))).strip(' .')}~{n}~" for n in range(40)]
    folders += [f"{rng.choice(folders[1:])}/{each}" for each in folders[1:]]
    names: set[str] = set()
    while len(names) < count:
        folder = rng.choice(folders)
        # The number keeps names apart from those of folders, and different where a file system folds case.
        name = f"{''.join(rng.choices(characters, k=rng.randrange(1, 30)))}{len(names)}.fq"
        names.add(f"{folder}/{name}" if folder else name)
    return sorted(names)


def fill(
    folder: Path,
    rng: random.Random,
    names: Sequence[str],
    sizes: Sequence[int] = (0, 1, 1000),
    *,
    latest_ns: int = _SETTLED_NS,
) -> None:
    """Files of random bytes, modes and times under these names; the sizes in turn, the first names the first ones."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(sizes[number % len(sizes)]))
        path.chmod(rng.choice([0o600, 0o640, 0o644, 0o755]))
        moment = rng.randrange(latest_ns)
        os.utime(path, ns=(moment, moment))


def settle(*paths: Path) -> None:
    """Gives files a time in the past, so that no upload waits to look at them again."""
    for path in paths:
        os.utime(path, ns=(_SETTLED_NS, _SETTLED_NS))


def tree(folder: Path) -> dict[str, Entry]:
    """All files and links below a folder by path, and empty folders by path with a last slash."""
    found: dict[str, Entry] = {}
    for place, folders, files in os.walk(folder):
        for name in [*files, *(each for each in folders if (Path(place) / each).is_symlink())]:
            path = Path(place) / name
            found[str(path.relative_to(folder))] = _entry(path)
        if not folders and not files and Path(place) != folder:
            found[f"{Path(place).relative_to(folder)}/"] = Entry(0, "", 0, 0)
    return found


def _entry(path: Path) -> Entry:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return Entry(0, "", 0, 0, os.readlink(path))  # noqa: PTH115 - as it is written, not as a Path
    return Entry(
        facts.st_size, hashlib.sha256(path.read_bytes()).hexdigest(), facts.st_mtime_ns, stat.S_IMODE(facts.st_mode)
    )


def assert_same_tree(expected: Path, actual: Path) -> None:
    """Two folders hold the same paths with the same bytes, times (to the nanosecond), permissions and links."""
    wanted, got = tree(expected), tree(actual)
    found = [f"{path!r} is missing" for path in sorted(wanted.keys() - got.keys())]
    found += [f"{path!r} should not be there" for path in sorted(got.keys() - wanted.keys())]
    found += [
        f"{path!r} is {got[path]} instead of {wanted[path]}"
        for path in sorted(wanted.keys() & got.keys())
        if wanted[path] != got[path]
    ]
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:20])
