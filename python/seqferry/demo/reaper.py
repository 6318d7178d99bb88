"""Removes processes and files of a demo that was killed.

A killed process cannot clean up after itself, so a second process does. It reads from a pipe which processes and paths
there are. When the pipe ends, because the demo has ended, it kills and removes those that are left.
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

_EXEC_ON_INPUT: Final = """
import os, sys
if os.read(0, 1):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execv(sys.argv[1], sys.argv[1:])
"""
"""Replaces itself with another program when it reads a byte. Ends when its input ends: the demo has ended then."""

_ADD: Final = "+"
_DROP: Final = "-"


class Reaper:
    """A context manager. Processes and paths that were added and not dropped are removed when this process ends."""

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
        """Start a process that is registered before it runs its program, so that no kill of this process misses it.

        Its input is empty, its outputs go to ``log``, and it has its own session, so that Ctrl-C does not reach it.
        """
        process = subprocess.Popen(  # noqa: S603 - our own command lines
            [sys.executable, "-I", "-S", "-c", _EXEC_ON_INPUT, *command],
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
        self._send(_ADD, what)

    def drop(self, what: int | Path) -> None:
        self._send(_DROP, what)

    def _send(self, sign: str, what: int | Path) -> None:
        assert self._process.stdin is not None
        kind = "process" if isinstance(what, int) else "path"
        # The second process was killed: the demo goes on, and cleaning up after a kill is left to the user.
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
