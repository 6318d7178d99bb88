"""Workers are started and ended by a command, as many as the open work needs.

Each worker has a slot, a number from 1: it is started with ``SEQFERRY_SLOT`` and reports it. A slot is written down
before its worker is started. A process of this kind that is killed and started again goes on with the slots of before;
the worst is that a command is run once more, so that commands must bear that.

- Up: at most double at each look.
- Down: no more than the work needed at any time of the last ``calm`` seconds. The youngest workers are drained, and
  their slots end when they have.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from seqferry.model.errors import SeqferryError
from seqferry.model.workers import SLOT, WORKING_KINDS, ProcessStatus
from seqferry.service import workers
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.scaling")

START_SECONDS: Final = 300.0
"""Time in which a worker reports after its start: that of a machine in a cloud, and some more."""

COMMAND_SECONDS: Final = 120.0
"""Longest run of the command."""

SLOTS: Final = "scaling.json"
"""File of the state folder with the slots."""

Action = Literal["start", "stop"]


@dataclass
class Slot:
    """A slot in use: time of its start, and whether a worker has reported it."""

    since: float
    has_come: bool = False


class CommandError(Exception):
    """The command has failed; its message is a sentence."""


def run_command(command: Sequence[str], action: Action, slot: int) -> None:
    """Run the command for a slot. ``{action}`` and ``{slot}`` in its words are replaced, and in its environment.

    Raises:
        CommandError: it cannot be run, takes too long, or ends with a status other than 0.
    """
    words = [word.replace("{action}", action).replace("{slot}", str(slot)) for word in command]
    environment = {**os.environ, "SEQFERRY_ACTION": action, "SEQFERRY_SLOT": str(slot)}
    shown = shlex.join(words)
    try:
        ended = subprocess.run(  # noqa: S603 - the command of the person who runs this
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"{shown} did not end within {COMMAND_SECONDS:g} s.") from None
    except OSError as why:
        raise CommandError(f"{shown} cannot be run: {why.strerror}.") from None
    if ended.returncode != 0:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        last = f": {lines[-1][:500]}" if lines else ""
        raise CommandError(f"{shown} ended with status {ended.returncode}{last}.")


class WorkerScaler:
    """Keeps as many workers as the open work needs.

    Args:
        command: words of the command that starts and ends a worker.
        calm: seconds for which fewer workers must have been enough before one is ended.
        run: runs the command, as ``run_command``.
        clock: the time in seconds.
    """

    def __init__(
        self,
        service: Service,
        command: Sequence[str],
        *,
        calm: float,
        run: Callable[[Sequence[str], Action, int], None] = run_command,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._command = command
        self._calm = calm
        self._run = run
        self._clock = clock
        self._began = clock()
        self._wanted: deque[tuple[float, int]] = deque()
        self._file: Path = service.settings.state_dir / SLOTS
        self._slots = _read(self._file)

    def look(self) -> None:
        """Compare the workers with the work, and start or end what is missing or too much.

        Raises:
            SeqferryError: the database does not answer.
            OSError: the state folder cannot be written.
        """
        now, wanted = self._clock(), self._service.autoscale().wanted_workers
        self._wanted.append((now, wanted))
        while self._wanted[0][0] < now - self._calm:
            self._wanted.popleft()
        found = [one for one in self._service.workers() if one.alive and one.process.kind in WORKING_KINDS]
        working = [one for one in found if not one.activity.facts.get("own_work")]
        by_slot = {slot: one for one in working if (slot := _slot(one)) is not None}
        self._update(by_slot, now)
        starting = [slot for slot, known in self._slots.items() if not known.has_come]
        present = [one for one in working if not one.draining]
        have = len(present) + len(starting)
        if have < wanted:
            self._start(min(wanted - have, max(have, 1)), {*self._slots, *by_slot}, now)
        least = max(most for _, most in self._wanted)
        if now - self._began >= self._calm and len(present) > least:
            ours = [one for one in present if _slot(one) in self._slots]
            ours.sort(key=lambda one: one.since, reverse=True)
            for one in ours[: len(present) - least]:
                log.info("%s is drained: the work needs %d workers.", one.process.name, least)
                workers.drain(self._service, one.process.id)

    def _update(self, by_slot: Mapping[int, ProcessStatus], now: float) -> None:
        """Take over which workers have come, and end the slots of those that have gone or have never come."""
        for slot, one in by_slot.items():
            known = self._slots.setdefault(slot, Slot(one.since))
            known.has_come = True
        for slot, known in list(self._slots.items()):
            if slot in by_slot or (not known.has_come and now - known.since < START_SECONDS):
                continue
            if not known.has_come:
                log.warning("The worker of slot %d has not come within %g s.", slot, START_SECONDS)
            try:
                self._run(self._command, "stop", slot)
            except CommandError as why:
                log.warning("Slot %d is not free yet: %s It is tried again.", slot, why)
                continue
            log.info("Slot %d is free.", slot)
            del self._slots[slot]
        self._write()

    def _start(self, count: int, taken: set[int], now: float) -> None:
        free = (slot for slot in range(1, len(taken) + count + 1) if slot not in taken)
        for _, slot in zip(range(count), free, strict=False):
            self._slots[slot] = Slot(now)
            self._write()
            try:
                self._run(self._command, "start", slot)
            except CommandError as why:
                log.warning("No worker was started: %s It is tried again.", why)
                del self._slots[slot]
                self._write()
                return
            log.info("Slot %d was started.", slot)

    def _write(self) -> None:
        text = json.dumps({str(slot): asdict(known) for slot, known in sorted(self._slots.items())})
        new = self._file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._file)


def _slot(one: ProcessStatus) -> int | None:
    found = one.activity.facts.get(SLOT)
    return found if isinstance(found, int) else None


def _read(file: Path) -> dict[int, Slot]:
    """The slots of a process before. A file that cannot be understood is as none: workers report theirs."""
    try:
        return {int(slot): Slot(**known) for slot, known in json.loads(file.read_text(encoding="utf-8")).items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def run(scaler: WorkerScaler, interval: float, stopped: Callable[[float], bool]) -> None:
    """Look until ``stopped``, which waits so many seconds, says so. What fails is logged once and tried again."""
    logged: str | None = None
    while True:
        try:
            scaler.look()
            logged = None
        except (SeqferryError, OSError) as why:
            text = why.message if isinstance(why, SeqferryError) else f"{why}."
            if text != logged:
                log.warning("The workers are as they were: %s It is tried again.", text)
            logged = text
        if stopped(interval):
            return
