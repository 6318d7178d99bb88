"""A mirror under test: the shipped command with a state folder of its own, and what its records say."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from seqferry.model.models import ObjectRecord, Status
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy
from support.servers import S3Server
from support.sim import Simulator

MIB = 1024 * 1024
SMALL_PARTS = ("--part-size", "5MiB", "--copy-threshold", "5MiB")
"""The least that S3 allows, so that a few megabytes make many parts."""


@dataclass
class Mover:
    """Runs ``seqferry`` against ``server``; everything it started ends with the block."""

    server: S3Server | Simulator
    state: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    within: tuple[str, ...] = ()
    """What runs the command, as ``ip netns exec NAME``."""
    command: Path | None = None
    """The command of another build. None: that of this one."""
    _started: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def start(self, *arguments: str) -> RunningProcess:
        environment = {**self.server.environment(), "SEQFERRY_STATE_DIR": str(self.state), **self.env}
        command = [*self.within, self.command or seqferry(), *arguments]
        is_preloaded = not self.within and self.command is None
        return self._started.enter_context(RunningProcess(command, environment=environment, is_preloaded=is_preloaded))

    def by(self, command: Path) -> Mover:
        """The same records and storage under the command of another build; it ends with this one."""
        return self._started.enter_context(Mover(self.server, self.state, self.env, self.within, command))

    def submit(self, *arguments: str) -> str:
        """``cp --detach``: the transfer's id."""
        running = self.start("cp", *arguments, "--detach")
        assert running.wait() == 0, str(running)
        return running.stdout.strip()

    def copy(self, *arguments: str, verb: str = "cp", deadline: float = 300.0) -> tuple[int, dict[str, Any], str]:
        """``cp --json`` to its end: exit status, the summary event, and what it said on stderr."""
        running = self.start(verb, *arguments, "--json")
        code = running.wait(deadline)
        events = [json.loads(line) for line in running.stdout.splitlines()]
        return code, events[-1] if events else {}, running.stderr

    def settings(self) -> Settings:
        return Settings.load({"SEQFERRY_STATE_DIR": str(self.state), **self.env})

    def _service(self) -> Service:
        return Service.open(self.settings())

    def status(self, transfer_id: str) -> Status:
        with self._service() as service:
            return service.status(transfer_id)

    def is_held(self, proxy: Proxy, rule: int, transfer_id: str, deadline: float = 120.0) -> bool:
        """Wait until a request is held by this rule. False when the transfer has ended before: none is left to hold.

        Raises:
            TimeoutError: neither has happened.
        """
        began = time.monotonic()
        while True:
            try:
                proxy.wait_held(rule, deadline=0.5)
                return True
            except TimeoutError as stuck:
                status = self.status(transfer_id)
                if status.ended:
                    return False
                if time.monotonic() - began > deadline:
                    raise TimeoutError(f"{stuck}\n{status}") from None

    def objects(self, transfer_id: str, state: str | None = None) -> list[ObjectRecord]:
        """All records of a transfer."""
        found: list[ObjectRecord] = []
        with self._service() as service:
            while page := service.objects(transfer_id, state=state, after=found[-1].row if found else 0):
                found += page
        return found
