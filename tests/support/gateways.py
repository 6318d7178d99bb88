"""Gateways under test, made by the shipped command, and what a machine needs for their clients."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.processes import RunningProcess, seqferry
from support.run import find_tool
from support.servers import S3Server

_SERVED = re.compile(r"is served at (\S+):/(\S+), port (\d+)\.")


class ServedShares:
    """Shares of one server, and the process that serves them."""

    def __init__(self, folder: Path, server: S3Server, config: str, *options: str) -> None:
        self._config = folder / "gateway.toml"
        self._config.write_text(config, encoding="utf-8")
        self.environment: Mapping[str, str] = {
            **server.environment(),
            "SEQFERRY_CONFIG": str(self._config),
            "SEQFERRY_STATE_DIR": str(folder / "gateway-state"),
        }
        self._options = options
        self.port = 0
        self.process = self._started()

    def _command_line(self) -> list[str | Path]:
        return [seqferry(), "gateway", "serve", "--port", str(self.port), *self._options]

    def _started(self) -> RunningProcess:
        process = RunningProcess(self._command_line(), environment=self.environment)
        try:
            process.wait_for_output("is served at")
            found = _SERVED.search(process.stderr + process.stdout)
            assert found is not None, process
            self.port = int(found[3])
        except BaseException:
            process.__exit__()
            raise
        return process

    def restart(self) -> None:
        """Ends the process by SIGKILL and starts another one on the same port."""
        self.process.__exit__()
        self.process = self._started()

    def url(self, path: str, uid: int = 1000) -> str:
        """The address of a path for libnfs."""
        return f"nfs://127.0.0.1/{path}?nfsport={self.port}&mountport={self.port}&version=3&uid={uid}&gid={uid}"

    def close(self) -> None:
        self.process.__exit__()


def writable_gateway() -> Path:
    """The instrument of tests that write.

    Raises:
        support.run.MissingToolError: it was not made.
    """
    hint = "run make .tools/bin/writable_gateway"
    return find_tool("writable_gateway", variable="SEQFERRY_WRITABLE_GATEWAY", hint=hint)


class ServedInstrument(ServedShares):
    """The share ``runs`` of a prefix, written by clients: an instrument, not the shipped command.

    Files are uploaded when they were not changed for ``quiet`` seconds; without it they never are.
    """

    def __init__(self, folder: Path, server: S3Server, bucket: str, prefix: str, *, quiet: float | None = None) -> None:
        self.environment = server.environment()
        self._command: list[str | Path] = [writable_gateway(), folder / "gateway", bucket, prefix]
        self._quiet = [] if quiet is None else [str(int(quiet * 1000))]
        self.port = 0
        self.process = self._started()

    def _command_line(self) -> list[str | Path]:
        return [*self._command, str(self.port), *self._quiet]


def missing_libnfs() -> str | None:
    """What this machine lacks for a client in user space; None for nothing."""
    if shutil.which("nfs-ls") and shutil.which("nfs-cat"):
        return None
    return "nfs-ls and nfs-cat are not installed: shares are not tested (Debian: apt-get install libnfs-utils)"


def read(shares: ServedShares, path: str, uid: int = 1000) -> bytes:
    """A file, as nfs-cat prints it."""
    return subprocess.run(["nfs-cat", shares.url(path, uid)], check=True, capture_output=True, timeout=120).stdout


def names(shares: ServedShares, path: str) -> dict[str, int]:
    """The names of a directory with their sizes, as nfs-ls prints them."""
    said = subprocess.run(["nfs-ls", shares.url(path)], check=True, capture_output=True, timeout=120).stdout
    rows = (line.split(maxsplit=5) for line in said.decode().splitlines())
    return {row[5]: int(row[4]) for row in rows if row[5] not in {".", ".."}}
