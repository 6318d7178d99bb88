"""Gateways under test, made by the shipped command, and what a machine needs for their clients."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from seqferry.engine.crash_points import VARIABLE
from support.processes import RunningProcess, run, seqferry
from support.run import find_tool
from support.servers import S3Server
from support.waiting import eventually

_SERVED = re.compile(r"is served at (\S+):/(\S+), port (\d+)\.")


class ServedShares:
    """Shares of one server, and the process that serves them, with `more` variables of the environment.

    ``within`` are the words of a command that runs the gateway.
    """

    def __init__(
        self,
        folder: Path,
        server: S3Server,
        config: str,
        *options: str,
        within: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._config = folder / "gateway.toml"
        self._config.write_text(config, encoding="utf-8")
        self.environment: Mapping[str, str] = {
            **server.environment(),
            "SEQFERRY_CONFIG": str(self._config),
            "SEQFERRY_STATE_DIR": str(folder / "gateway-state"),
            **(more or {}),
        }
        self._options = options
        self._within = within
        self.port = 0
        self.process = self._started()

    def _command_line(self) -> list[str | Path]:
        return [*self._within, seqferry(), "gateway", "serve", "--port", str(self.port), *self._options]

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
        self.process = eventually(self._started_again, what=f"port {self.port}", every=0.2)

    def _started_again(self) -> RunningProcess | None:
        """None: a connection of another program has the port just now."""
        try:
            return self._started()
        except RuntimeError as why:
            if "in use" not in str(why):
                raise
            return None

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

    Files are uploaded when they were not changed for ``quiet`` seconds; without it they never are. The first process
    ends at ``crash_at``: the name of a crash point, a colon and the number of a visit.
    """

    def __init__(
        self,
        folder: Path,
        server: S3Server,
        bucket: str,
        prefix: str,
        *,
        quiet: float | None = None,
        crash_at: str | None = None,
    ) -> None:
        environment = server.environment()
        self.environment = environment if crash_at is None else {**environment, VARIABLE: crash_at}
        self._command: list[str | Path] = [writable_gateway(), folder / "gateway", bucket, prefix]
        self._quiet = [] if quiet is None else [str(int(quiet * 1000))]
        self.port = 0
        self.process = self._started()
        self.environment = environment

    def _command_line(self) -> list[str | Path]:
        return [*self._command, str(self.port), *self._quiet]


def need_libnfs() -> None:
    """Skip where there is no client, and say so; where everything must be there, fail."""
    if (missing := missing_libnfs()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


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


class WrittenShares(ServedShares):
    """Shares that clients write to, served by the shipped command with a cache of its own."""

    def __init__(
        self,
        folder: Path,
        server: S3Server,
        config: str,
        *options: str,
        cache: Path | None = None,
        within: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.cache = cache or folder / "cache"
        super().__init__(folder, server, config, "--cache", str(self.cache), *options, within=within, more=more)

    def ask(self, *arguments: str, expect: int | None = 0, deadline: float = 120.0) -> subprocess.CompletedProcess[str]:
        """One of the commands that ask the gateway."""
        command = [seqferry(), "gateway", *arguments, "--cache", str(self.cache)]
        return run(command, environment=self.environment, expect=expect, deadline=deadline)

    def events(self, *arguments: str, expect: int | None = 0) -> list[dict[str, Any]]:
        """The events of such a command."""
        return [json.loads(line) for line in self.ask(*arguments, "--json", expect=expect).stdout.splitlines()]

    def writing(self, name: str = "runs") -> dict[str, Any]:
        """The state of a share that is written."""
        return next(event["writing"] for event in self.events("status") if event["share"] == name)

    def write(self, path: str, body: bytes) -> None:
        """Write a file and commit it."""
        with tempfile.NamedTemporaryFile() as local:
            local.write(body)
            local.flush()
            subprocess.run(["nfs-cp", local.name, self.url(path)], check=True, capture_output=True, timeout=120)


def written_share(name: str, source: str, *lines: str) -> str:
    """A table of the configuration. All clients are its owner, so that each may write."""
    keys = [f'name = "{name}"', f'source = "{source}"', "read_only = false", 'squash = "all"', *lines]
    return "\n".join(["[[share]]", *keys, ""])
