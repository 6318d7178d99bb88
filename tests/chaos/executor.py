"""Runs a schedule: one fault at a time for each victim, all that happened on record."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos import levers
from chaos.schedule import CALM, Fault

_WHEN_SECONDS: Final = 3.0
"""A state that is not seen for so long is given up: the fault then strikes without it, and says so."""
_WHEN_LOOK_SECONDS: Final = 0.01
_VICTIM_SECONDS: Final = 20.0
"""Longest wait for a victim that is struck already."""


@dataclass
class Struck:
    """A fault as it happened. Times are seconds since the epoch, by the machine's clock."""

    fault: Fault
    began: float
    healed: float = 0.0
    seen: bool = True
    """False when the state that it waited for was not seen."""
    failure: str = ""


@dataclass
class Log:
    """All that happened, kept in a file as it happens."""

    path: Path
    struck: list[Struck] = field(default_factory=list["Struck"])
    skipped: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, **what: Any) -> None:
        with self._lock, self.path.open("a") as file:
            file.write(json.dumps({"at": round(time.time(), 3), **what}) + "\n")

    def keep(self, struck: Struck) -> None:
        one = struck.fault
        self.struck.append(struck)
        more = {name: value for name, value in (("failure", struck.failure), ("unseen", not struck.seen)) if value}
        self.tell(
            n=one.n, kind=one.kind, who=one.who, began=round(struck.began, 3), healed=round(struck.healed, 3), **more
        )

    def last_minute(self, until: float) -> str:
        """The faults of the minute before, for a report."""
        recent = [one for one in self.struck if one.healed > until - 60 and one.began < until]
        return "\n".join(
            f"  {one.began - until:7.1f} s  {one.fault.kind} {one.fault.who} for {one.healed - one.began:.1f} s"
            for one in sorted(recent, key=lambda one: one.began)
        )


class Executor:
    """``strike`` runs one schedule."""

    def __init__(self, world: levers.StoredWorld, log: Log) -> None:
        self._world = world
        self._log = log
        self._victims: dict[str, threading.Lock] = {}
        self._running: list[threading.Thread] = []
        self._calm_seconds = 0.0

    def strike(
        self,
        faults: Iterable[Fault],
        calm: Callable[[], None],
        *,
        until: float | None = None,
        first: Iterable[str] = (),
    ) -> None:
        """Run the schedule; ``calm`` is called when all is healed, at each calm phase.

        Args:
            first: kinds whose first fault waits for its victim; others are skipped when it is struck already.
            until: time of ``time.monotonic`` after which no fault begins; what is left is skipped, but the last calm.
        """
        began = time.monotonic()
        waiting = set(first)
        for one in faults:
            if until is not None and time.monotonic() > until:
                if one.kind != CALM:
                    self._log.skipped["late"] += 1
                continue
            self._wait(began + self._calm_seconds + one.t - time.monotonic())
            if one.kind == CALM:
                self._calm(calm)
                continue
            lock = self._victims.setdefault(one.who, threading.Lock())
            is_free = lock.acquire(timeout=_VICTIM_SECONDS) if one.kind in waiting else lock.acquire(blocking=False)
            waiting.discard(one.kind)
            if not is_free:
                self._log.skipped["busy"] += 1
                continue
            thread = threading.Thread(target=self._strike, args=(one, lock), name=f"fault-{one.n}", daemon=True)
            self._running.append(thread)
            thread.start()
        if self._running:
            self._calm(calm)

    def _calm(self, calm: Callable[[], None]) -> None:
        paused = time.monotonic()
        for thread in self._running:
            thread.join()
        self._running.clear()
        self._log.tell(calm="begins")
        calm()
        self._log.tell(calm="ends")
        self._calm_seconds += time.monotonic() - paused

    def _strike(self, fault: Fault, lock: threading.Lock) -> None:
        try:
            struck = Struck(fault, time.time())
            struck.seen = self._seen(fault.when)
            struck.began = time.time()
            try:
                with levers.lever(fault.kind)(self._world, fault):
                    self._wait(fault.lasts)
            except Exception as why:  # noqa: BLE001 - one lever that fails must not end the run; it is on record
                struck.failure = f"{type(why).__name__}: {why}"
            struck.healed = time.time()
            self._log.keep(struck)
        finally:
            lock.release()

    def _seen(self, when: str) -> bool:
        if not when:
            return True
        until = time.monotonic() + _WHEN_SECONDS
        while time.monotonic() < until:
            if any(one.operation in levers.IN_FLIGHT[when] for one in self._world.proxy.in_flight()):
                return True
            self._wait(_WHEN_LOOK_SECONDS)
        return False

    @staticmethod
    def _wait(seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)
