"""Control groups of a test's own that limit the memory of a command, below the group that the tests run in."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from seqferry.settings import memory_limits
from support.waiting import eventually


class ControlGroup:
    """A group with a limit of memory. A context manager: it is removed in the end, when its processes have ended."""

    def __init__(self, limit: int) -> None:
        """Raises OSError where this user may not make one (an unprivileged user, a container)."""
        made = None
        for mount, version, own in memory_limits.memory_mounts():
            made = mount.joinpath(*own.parts) / f"seqferry-test-{os.getpid()}"
            made.mkdir()
            try:
                (made / ("memory.max" if version == 2 else "memory.limit_in_bytes")).write_text(str(limit))
            except OSError:
                made.rmdir()
                raise
            break
        if made is None:
            raise FileNotFoundError("no control group of this machine counts memory")
        self.folder: Path = made

    def command(self, *words: str | Path) -> list[str]:
        """The command that runs these words in the group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.folder), *map(str, words)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        def is_gone() -> bool:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            return not self.folder.exists()

        eventually(is_gone, what=f"{self.folder} to be empty")
