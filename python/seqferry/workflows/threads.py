"""The threads of a worker that repeat an act until the worker stops."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from seqferry.workflows.idle_polling import IDLE_SECONDS, POLL_SECONDS, IdleTimer, WorkSignal

log: Final = logging.getLogger("seqferry.worker")


def poll_seconds() -> float:
    return POLL_SECONDS


def idle_seconds() -> float:
    return IDLE_SECONDS


class Threads:
    """Threads of one worker. Each repeats one act, also after it fails."""

    def __init__(self) -> None:
        self._leaving = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(
        self,
        name: str,
        interval: float,
        act: Callable[[], None],
        signal: WorkSignal | None,
        *,
        rest: Callable[[], float] | None = None,
    ) -> None:
        """``rest``: seconds between two acts of an idle worker without a signal; None: as of a busy one."""
        look = IdleTimer(None if rest is None else signal, rest or poll_seconds)

        def loop() -> None:
            logged = ""
            while not self._leaving.wait(interval):
                if not look.is_due():
                    continue
                try:
                    act()
                    logged = ""
                except Exception as why:  # noqa: BLE001 - a thread that dies unseen would be worse
                    # Once, and not each second for as long as it lasts.
                    if logged != (logged := str(why)):
                        log.warning("%s: %s", name, why)

        thread = threading.Thread(target=loop, name=f"seqferry-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def end(self) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
