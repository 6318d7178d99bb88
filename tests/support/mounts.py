"""Mounted folders under test, made by the shipped command."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seqferry.engine import mounts
from support.processes import RunningProcess, run_seqferry, seqferry
from support.servers import S3Server
from support.sim import Simulator
from support.waiting import eventually

Server = S3Server | Simulator
LOG: Final = "mount.log"
"""Where processes that serve in the background print, in the state folder."""


def missing_fuse() -> str | None:
    """What this machine lacks for mounts; None for nothing."""
    if not Path("/dev/fuse").exists():
        return "this machine has no /dev/fuse: the mount is not tested"
    if subprocess.run(["sh", "-c", "command -v fusermount3 || test $(id -u) = 0"], capture_output=True).returncode:
        return "fusermount3 is not installed: the mount is not tested (Debian: apt-get install fuse3)"
    return None


@dataclass
class Mount:
    """One folder and the command that serves it."""

    directory: Path
    environment: dict[str, str]
    pid: int | None = None

    def stats(self) -> dict[str, int]:
        """What the mount tells of itself."""
        found = next(each for each in mounts.list_mounts() if each.directory == str(self.directory))
        assert found.stats is not None
        return found.stats

    def umount(self, *options: str) -> None:
        run_seqferry("umount", self.directory, *options, environment=self.environment)

    @property
    def serving(self) -> list[int]:
        """Processes that serve folders in the background for the user of this environment, and this one in any way."""
        log = Path(self.environment["SEQFERRY_STATE_DIR"], LOG)
        return _named(self.directory) + _writing_to(log)

    @property
    def is_mounted(self) -> bool:
        return mounts.is_mounted(self.directory)


class Mounter:
    """Mounts buckets of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: list[Mount] = []
        self._serving: list[RunningProcess] = []

    def _new(self, server: Server, directory: Path | None, environment: dict[str, str] | None = None) -> Mount:
        directory = directory or self.folder / f"mnt{len(self._made)}"
        directory.mkdir(exist_ok=True)
        environment = {**(environment or server.environment()), "SEQFERRY_STATE_DIR": str(self.folder / "mount-state")}
        self._made.append(Mount(directory, environment))
        return self._made[-1]

    def __call__(
        self,
        server: Server,
        uri: str,
        *options: str,
        directory: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Mount:
        """Mounts in the background, with the environment of the server or another one."""
        mount = self._new(server, directory, environment)
        run_seqferry("mount", uri, mount.directory, *options, environment=mount.environment)
        return mount

    def adopt(self, server: Server, directory: Path) -> Mount:
        """A folder that a command of the test mounts with this environment."""
        return self._new(server, directory)

    def foreground(
        self, server: Server, uri: str, *options: str, directory: Path | None = None, is_preloaded: bool = True
    ) -> tuple[Mount, RunningProcess]:
        """Mounts in a process that the test holds. See ``RunningProcess``; the memory of a fork is no figure."""
        mount = self._new(server, directory)
        command = [seqferry(), "mount", uri, mount.directory, "--foreground", *options]
        running = RunningProcess(command, environment=mount.environment, is_preloaded=is_preloaded)
        self._serving.append(running)
        running.wait_for_output("is mounted at")
        return mount, running

    def close(self) -> None:
        for running in self._serving:
            running.__exit__()
        for mount in self._made:
            # Whatever a failed test has left: detached, so that nothing waits for it.
            while mount.is_mounted:
                subprocess.run(["umount", "-l", mount.directory], check=False, capture_output=True)
                subprocess.run(["fusermount3", "-uz", mount.directory], check=False, capture_output=True)
            # One that is written uploads on after it, for ever where its server has gone.
            for pid in mount.serving:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _writing_to(log: Path) -> list[int]:
    """Processes whose standard output is a file: the command line of one that was forked is that of its parent."""
    found: list[int] = []
    for output in Path("/proc").glob("[0-9]*/fd/1"):
        with suppress(OSError):  # it has ended meanwhile
            if output.readlink() == log:
                found.append(int(output.parts[2]))
    return found


def _named(directory: Path) -> list[int]:
    """Processes whose command line names a folder."""
    found: list[int] = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if os.fsencode(directory) in command.read_bytes().split(b"\0"):
                found.append(int(command.parent.name))
    return found


def gone(mount: Mount) -> None:
    """Waits until the folder is no mount any more."""
    eventually(lambda: not mount.is_mounted, what=f"{mount.directory} to be unmounted")
