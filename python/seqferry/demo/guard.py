"""Ends what a killed demo would leave behind.

A process that is killed cannot clean up after itself, so a bystander does: it reads, from a pipe whose other end only
the demo holds, what there is, and when the pipe ends without the demo having taken it back, kills and removes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

_WHEN_TOLD: Final = """
import os, sys
if os.read(0, 1):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execv(sys.argv[1], sys.argv[1:])
"""
"""Replaces itself with another program when it reads a byte. Ends when its input ends: the demo has ended then."""

_ADD: Final = "+"
_DROP: Final = "-"


class Guard:
    """A context manager. What was added and not dropped does not outlive this process, however that ends."""

    def __init__(self) -> None:
        # By its path: the package's own imports would take longer than what it does. Its own session: Ctrl-C is for us.
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def start(
        self, command: Sequence[str], *, log: IO[bytes], env: dict[str, str], cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """A process that is added before it is anything: killed at any moment, this one leaves none that is not known.

        Its input is empty, its outputs go to ``log``, and it has a group of its own: Ctrl-C is for us, and we end it.
        """
        process = subprocess.Popen(  # noqa: S603 - our own command lines
            [sys.executable, "-I", "-S", "-c", _WHEN_TOLD, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self.add(process.pid)
        assert process.stdin is not None
        # It may have been killed meanwhile.
        with suppress(BrokenPipeError):
            process.stdin.write(b"!")
            process.stdin.close()
        return process

    def add(self, what: int | Path) -> None:
        """Register the number of a process, the path of a folder, or a pattern of the paths of files."""
        self._tell(_ADD, what)

    def drop(self, what: int | Path) -> None:
        self._tell(_DROP, what)

    def _tell(self, sign: str, what: int | Path) -> None:
        assert self._process.stdin is not None
        kind = "process" if isinstance(what, int) else "path"
        # The bystander was killed: the user has to clean up after a killed demo; the demo goes on.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{sign}{kind} {what}\n".encode())
            self._process.stdin.flush()


def _watch() -> None:
    left: dict[tuple[str, str], None] = {}
    for line in sys.stdin:
        kind, _, what = line[1:].rstrip("\n").partition(" ")
        if line.startswith(_ADD):
            left[kind, what] = None
        else:
            left.pop((kind, what), None)
    # Processes first: they write to the paths.
    for kind, what in left:
        if kind == "process":
            with suppress(ProcessLookupError):
                os.kill(int(what), signal.SIGKILL)
    for kind, what in left:
        if kind == "path":
            path = Path(what)
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):
                for found in path.parent.glob(path.name):
                    found.unlink()


if __name__ == "__main__":
    _watch()
