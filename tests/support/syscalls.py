"""The order of a command's system calls, by strace: what was on the disk when something was said or sent."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.run import MissingToolError

_WATCHED: Final = (
    "fsync,fdatasync,syncfs,pwrite64,write,writev,sendto,sendmsg,mkdir,mkdirat,rename,renameat,renameat2,openat,"
    "unlinkat"
)
_SYNCS: Final = frozenset({"fsync", "fdatasync"})
_LINE: Final = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)")
_UNFINISHED: Final = "<unfinished ...>"


@dataclass(frozen=True)
class SystemCall:
    """One system call. ``begun`` and ``ended`` are lines of the trace: the smaller was earlier.

    ``text`` has arguments and result, as ``12</path/of/the/file>, "bytes", 5, 0) = 5``.
    """

    name: str
    text: str
    begun: int
    ended: int

    @property
    def worked(self) -> bool:
        return re.search(r"\) += -1 ", self.text) is None


class Syscalls:
    """Traces one command: prefix it with ``within``, then read ``calls``.

    Raises:
        MissingToolError: strace is not installed, or this machine does not let it trace.
    """

    def __init__(self, folder: Path) -> None:
        self._file: Final = folder / "syscalls"
        if shutil.which("strace") is None:
            raise MissingToolError("strace is not installed (Debian: apt-get install strace)")
        tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            raise MissingToolError(f"strace may not trace here: {tried.stderr.strip().splitlines()[-1:]}")

    @property
    def within(self) -> tuple[str, ...]:
        # Whole pages of the database are shown, and what a descriptor stands for.
        options = ("-f", "-y", "--seccomp-bpf", "-s", "8192", "-e", "signal=none", "-e", f"trace={_WATCHED}")
        return ("strace", *options, "-o", str(self._file))

    def calls(self) -> list[SystemCall]:
        """What the command has done so far, by its begin."""
        found: list[SystemCall] = []
        open_: dict[str, tuple[str, str, int]] = {}
        for number, line in enumerate(self._file.read_text(errors="replace").splitlines()):
            match = _LINE.match(line)
            if match is None:
                continue  # a signal, or the end of a thread
            thread, resumed, name, rest = match.groups()
            if resumed is not None:
                _, text, begun = open_.pop(thread)
                found.append(SystemCall(resumed, text + rest, begun, number))
            elif rest.endswith(_UNFINISHED):
                open_[thread] = (name, rest.removesuffix(_UNFINISHED), number)
            else:
                found.append(SystemCall(name, rest, number, number))
        return sorted(found, key=lambda call: call.begun)


def first(calls: Sequence[SystemCall], names: str, pattern: str) -> SystemCall:
    """The first call of one of these names whose text fits the pattern."""
    fitting = [call for call in calls if call.name in names.split() and re.search(pattern, call.text)]
    assert fitting, f"none of {names} with {pattern!r} among {len(calls)} calls"
    return fitting[0]


def assert_synced_before(calls: Sequence[SystemCall], effect: SystemCall, *, path: str, content: str) -> None:
    """``content`` was written to a file whose path fits ``path``, and synced before ``effect`` began.

    Its first write counts: a page of a database is written again when something else in it changes.
    """
    writes = [
        call
        for call in calls
        if call.name in ("write", "writev", "pwrite64")
        and call.begun < effect.begun
        and re.match(rf"\d+<[^>]*{path}>", call.text)
        and content in call.text
    ]
    assert writes, f"{content!r} was not written before {effect}"
    assert_file_synced(calls, after=writes[0], before=effect, path=path)


def assert_file_synced(calls: Sequence[SystemCall], *, after: SystemCall, before: SystemCall, path: str) -> None:
    """A file or folder whose path fits ``path`` was synced between two calls."""
    syncs = [
        call for call in calls if call.name in _SYNCS and call.worked and re.match(rf"\d+<[^>]*{path}>", call.text)
    ]
    assert any(after.ended < sync.begun and sync.ended < before.begun for sync in syncs), (
        f"no sync of {path} between line {after.ended} and line {before.begun}; there are {syncs}"
    )
