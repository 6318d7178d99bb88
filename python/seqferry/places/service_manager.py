"""Messages to the service manager that has started this process, as systemd's units of ``Type=notify`` expect them.

Without ``NOTIFY_SOCKET`` all of it does nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

log: Final = logging.getLogger("seqferry.service_manager")

_MICROSECONDS: Final = 1_000_000
_PINGS_PER_LIMIT: Final = 3
"""Parts of the process are checked a third of the limit after the last ping, for a third of the limit at most. After a
late or missing answer the next one is still in time."""

_ASKED_AGAIN: Final = 10
"""A part that did not answer is checked again after this fraction of the pause: the limit is near."""

_SEND_SECONDS: Final = 1.0
"""A service manager that does not read must not block. Its queue has room for an hour of messages of a process."""

Answers = Callable[[float], bool]
"""True if a part of the process responds within so many seconds."""


class ServiceManager:
    """The manager, by the variables that it has set for this process."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        given = os.environ if variables is None else variables
        self._address: Final = given.get("NOTIFY_SOCKET", "")
        self._limit: Final = _watchdog_seconds(given) if self._address else None

    def ready(self) -> None:
        """Say that the process does its work from now on."""
        self._send("READY=1\nSTATUS=")

    def waiting(self, what: str) -> None:
        """Say what the process waits for before it is ready."""
        self._send(f"STATUS=Waiting for {what}")

    def stopping(self) -> None:
        """Say that the process has begun to end."""
        self._send("STOPPING=1")

    @contextmanager
    def feed_watchdog(self, *parts: Answers) -> Generator[None]:
        """Ping the manager within the block, from a thread, as long as all parts of the process answer.

        The manager kills and restarts a process that has not pinged for the time that the unit sets. Parts must not ask
        the database: an outage of it would restart every process.
        """
        if self._limit is None:
            yield
            return
        ended = threading.Event()
        pause = self._limit / _PINGS_PER_LIMIT
        thread = threading.Thread(target=self._ping, args=(parts, pause, ended), name="seqferry-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _ping(self, parts: tuple[Answers, ...], pause: float, ended: threading.Event) -> None:
        is_silent = False
        while True:
            answered = all(part(pause / len(parts)) for part in parts)
            if answered:
                self._send("WATCHDOG=1")
            elif not is_silent:
                log.warning("a part of this process does not answer; the watchdog of its service ends it")
            is_silent = not answered
            if ended.wait(pause if answered else pause / _ASKED_AGAIN):
                return

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(_SEND_SECONDS)
                sender.sendto(message.encode(), address)
        except OSError as why:
            log.debug("the service manager takes no message: %s", why.strerror or why)


def _watchdog_seconds(variables: Mapping[str, str]) -> float | None:
    """Time without a ping after which the manager kills this process; None when it does not watch it."""
    limit, process = variables.get("WATCHDOG_USEC", ""), variables.get("WATCHDOG_PID", "")
    if not limit.isdecimal() or int(limit) == 0 or (process and process != str(os.getpid())):
        return None
    return int(limit) / _MICROSECONDS
