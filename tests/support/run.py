"""What one test run (or bench) shares between its processes: a folder, servers started once, and their end.

pytest-xdist runs tests in several worker processes. Whichever needs a server first starts it, under a file lock; the
others read its address from the run's folder. Every server runs under ``supervise.sh``, whose standard input is a named
pipe that only the controlling process holds open: when that process ends, in whatever way, all servers end and their
data is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.times import measured

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".tools" / "bin"
SCRIPTS: Final = ROOT / ".venv" / "bin"

_SUPERVISE: Final = ROOT / "crates" / "testkit" / "src" / "servers" / "supervise.sh"
_VARIABLE: Final = "SEQFERRY_TEST_RUN"
_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 2 * 1024**3
"""Bytes: choice. The databases of a run take some hundred MiB. Containers often have 64 MiB there: too few."""


class MissingToolError(Exception):
    """A tool that the test needs is not installed. The text says which, and how to get it."""


class Run:
    """One run. The process that creates it controls it; those that attach to it only use it."""

    def __init__(self, folder: Path, alive: int | None) -> None:
        self.folder = folder
        self._alive = alive
        self._in_memory = _MEMORY / folder.name
        self._supervisors: list[subprocess.Popen[bytes]] = []

    @classmethod
    def create(cls) -> Run:
        folder = Path(tempfile.mkdtemp(prefix="seqferry-test-"))
        folder.chmod(0o711)  # a server that runs as another user passes through
        (folder / "servers").mkdir(mode=0o711)
        fifo = folder / "alive"
        os.mkfifo(fifo)
        # For reading and writing, so that opening does not wait for the other side.
        alive = os.open(fifo, os.O_RDWR)
        os.environ[_VARIABLE] = str(folder)
        return cls(folder, alive)

    @classmethod
    def attach(cls) -> Run:
        """The run that this process is part of.

        Raises:
            KeyError: this process was not started by one that created a run.
        """
        return cls(Path(os.environ[_VARIABLE]), None)

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        with (self.folder / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` returned to the first process that asked for ``name``; JSON values only."""
        record = self.folder / f"{name}.json"
        with self._lock(name):
            if record.exists():
                return json.loads(record.read_text())
            with measured(f"start {name}"):
                made = make()
            record.write_text(json.dumps(made))
            return made

    def new_folder(self, name: str, *, owner: tuple[int, int] | None = None, in_memory: bool = False) -> Path:
        """An empty folder for a server's data, removed at the server's end.

        Args:
            in_memory: the data need no disk, and are kept in memory where that has room.
        """
        parent = self.folder / "servers"
        if in_memory and _has_room(_MEMORY):
            parent = self._in_memory
            parent.mkdir(mode=0o711, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        if owner is not None:
            os.chown(folder, *owner)
        return folder

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        signal: str = "KILL",
        user: tuple[int, int] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a server that ends with the run. What it prints goes to ``FOLDER.log`` beside its folder."""
        with folder.with_suffix(".log").open("wb") as log, (self.folder / "alive").open("rb", buffering=0) as alive:
            process = subprocess.Popen(
                # The text, since ``user`` may not be allowed to enter the folder of this checkout.
                ["/bin/sh", "-c", _SUPERVISE.read_text(), "supervise", signal, str(folder), *map(str, command)],
                stdin=alive,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment) if environment is not None else None,
                cwd=folder,
                start_new_session=True,
                user=user[0] if user else None,
                group=user[1] if user else None,
                extra_groups=[] if user else None,
            )
        # Kept: Python warns of a process object that is thrown away while its process runs.
        self._supervisors.append(process)
        return process

    def close(self) -> None:
        """Ends every server and removes all of their data. For the creator."""
        if self._alive is None:
            return
        os.close(self._alive)
        self._alive = None
        os.environ.pop(_VARIABLE, None)
        # Each supervisor removes its folder last; one that runs as another user can only empty it.
        deadline = time.monotonic() + 10
        parents = (self.folder / "servers", self._in_memory)
        while any(_has_data(path) for parent in parents for path in parent.glob("*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        for path in (self.folder, self._in_memory):
            shutil.rmtree(path, ignore_errors=True)


def _has_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free >= _ROOM
    except FileNotFoundError:
        return False


def _has_data(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError:  # it is gone in this moment
        return False


def log_tail(folder: Path, lines: int = 15) -> str:
    """The last lines that the server with this data folder printed."""
    log = folder.with_suffix(".log")
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(it printed nothing)"


def find_tool(name: str, *, variable: str, hint: str) -> Path:
    """A tool by its environment variable, in ``.tools``, in ``.venv`` or on the path, in this order.

    Raises:
        MissingToolError: the tool is in none of these places; the text ends with ``hint``.
    """
    named = os.environ.get(variable)
    if named:
        if Path(named).is_file():
            return Path(named)
        raise MissingToolError(f"{variable} names {named}, which does not exist")
    for folder in (TOOLS, SCRIPTS):
        if (folder / name).is_file():
            return folder / name
    found = shutil.which(name)
    if found:
        return Path(found)
    raise MissingToolError(f"{name} is not installed: {hint}")
