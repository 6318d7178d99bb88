"""Wall clocks of processes, moved by a preloaded library (``clock.c``)."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("clock.c")


class Clock:
    """The clock of one process and its children. ``environment`` is what they are started with."""

    def __init__(self, library: Path | None, file: Path) -> None:
        """``library``: from ``build``; without it the clock cannot be moved."""
        self._file = file
        self.movable: Final = library is not None
        self.environment: Final[dict[str, str]] = {}
        self.shift = 0.0
        if library is not None:
            file.write_bytes(bytes(8))
            file.chmod(0o644)
            self.environment.update(LD_PRELOAD=str(library), SEQFERRY_CHAOS_CLOCK=str(file))

    def move(self, seconds: float) -> None:
        """Set the clock so far before (or behind) the machine's, at once."""
        self.shift = seconds
        if self.movable:
            with self._file.open("r+b") as file:
                file.write(struct.pack("=q", int(seconds * 1e9)))


def build(folder: Path) -> Path | None:
    """The library; None, said on standard error, where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("chaos: there is no C compiler: clocks are left alone (Debian: apt-get install gcc)", file=sys.stderr)
        return None
    library = folder / "clock.so"
    subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True
    )
    library.chmod(0o755)
    return library
