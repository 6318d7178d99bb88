"""The folder that the archives are made of, and the comparison of two trees with times and permissions."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

_GO_CACHE: Final = os.environ.get("GOCACHE") or str(Path.home() / ".cache/go-build")
"""That of the user, where the library is compiled: a cache of the run's own begins empty."""

ENVIRONMENT: Final = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", "GOCACHE": _GO_CACHE}

_OLD: Final = 1_000_000_000
_RECENT: Final = 3600 * 10**9
_LONG: Final = "/".join(f"a-long-name-of-a-folder-{number}" for number in range(6))
_LONGEST: Final = f"{'/'.join('x' * 60 for _ in range(5))}/{'y' * 200}.txt"


def make_simple(folder: Path) -> None:
    """Names, sizes, links and times that every format can hold. Whole even seconds, as MS-DOS has them."""
    for name, size, mode in (
        ("top.txt", 5, 0o644),
        ("run/empty", 0, 0o600),
        ("run/one", 1, 0o755),
        ("run/block", 512, 0o444),
        ("run/odd", 70_001, 0o640),
        ("run/X:1-1000.bed", 30, 0o644),
        ("run/with space", 2, 0o644),
        ("run/-dash", 2, 0o644),
    ):
        _file(folder / name, size, mode)
    (folder / "run/text").write_bytes(b"ACGT" * 5_000)
    (folder / "run/folder").mkdir(mode=0o700)
    _date(folder)


def make_tree(folder: Path) -> None:
    """As ``make_simple``, with links of all kinds, long and foreign names, fractions of seconds and a sparse file."""
    make_simple(folder)
    for name in (f"{_LONG}/file", _LONGEST, "run/Ünïcödé 中文.txt", "run/a\\b", "run/new\nline", "C:drive"):
        _file(folder / name, 20, 0o644)
    _file(folder / "run/set-id", 3, 0o4755)
    os.link(folder / "run/odd", folder / "run/zz-hard")
    (folder / "run/link").symlink_to("odd")
    (folder / "run/nowhere").symlink_to("gone/x")
    (folder / "run/to-folder").symlink_to("folder")
    os.link(folder / "run/link", folder / "run/zz-hard-link", follow_symlinks=False)
    with (folder / "run/sparse").open("wb") as sparse:
        sparse.write(b"begin")
        sparse.seek(1 << 20)
        sparse.write(b"middle")
        sparse.truncate(3 << 20)
    _date(folder)
    os.utime(folder / "run/one", ns=(_OLD * 10**9, 1_234_567_890_123_456_789))


def _file(path: Path, size: int, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(hashlib.shake_256(str(path.name).encode()).digest(size))
    path.chmod(mode)


def _date(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):  # folders after what lies in them
        os.utime(path, (_OLD, _OLD), follow_symlinks=False)


class Entry(NamedTuple):
    """A file, link or folder of a tree."""

    kind: str
    mode: int
    mtime: int
    contents: str


def tree(folder: Path) -> dict[str, Entry]:
    """All that lies below a folder by path."""
    found: dict[str, Entry] = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place) / name
            facts = path.lstat()
            link = stat.S_ISLNK(facts.st_mode)
            contents = os.readlink(path) if link else ""  # noqa: PTH115 - as it is written, not as a Path
            if stat.S_ISREG(facts.st_mode):
                contents = hashlib.sha256(path.read_bytes()).hexdigest()
            kind = stat.filemode(facts.st_mode)[0]
            mode = 0 if link else stat.S_IMODE(facts.st_mode)
            found[str(path.relative_to(folder))] = Entry(kind, mode, facts.st_mtime_ns, contents)
    return found


def differences(wanted: dict[str, Entry], found: dict[str, Entry]) -> list[str]:
    told = [f"{path!r} is missing" for path in sorted(wanted.keys() - found.keys())]
    told += [f"{path!r} should not be there" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        here, there = wanted[path], found[path]
        if here.kind == "d" and abs(here.mtime - time.time_ns()) < _RECENT:
            there = there._replace(mtime=here.mtime)  # no member states the time of the folder
        if here != there:
            told.append(f"{path!r} is {there} instead of {here}")
    return told


def run(*command: str, cwd: Path, stdin: bytes | None = None, may_fail: bool = False) -> bytes:
    """Standard output of a program that must succeed, unless it may fail."""
    ended = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, env=ENVIRONMENT, check=False)
    assert may_fail or ended.returncode == 0, f"{command}: {ended.stderr.decode(errors='replace')[-2000:]}"
    return ended.stdout
