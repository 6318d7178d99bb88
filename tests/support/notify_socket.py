"""The socket on which a service manager hears its services."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Self


class NotifySocket:
    """A context manager. Messages are kept by the kernel until they are read."""

    def __init__(self, address: Path | str) -> None:
        """Args: ``address`` is a path, or begins with @ for a name that no file system has."""
        self.address = str(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.address[1:]}" if self.address.startswith("@") else self.address)

    def environment(self, watchdog: float | None = None) -> dict[str, str]:
        """Variables that the manager sets for a service, which it ends after so many seconds without a ping."""
        limit = {} if watchdog is None else {"WATCHDOG_USEC": str(int(watchdog * 1e6))}
        return {"NOTIFY_SOCKET": self.address, **limit}

    def wait_for(self, line: str, deadline: float = 60.0) -> list[str]:
        """Lines of all messages up to the first with this one.

        Raises:
            TimeoutError: it does not come.
        """
        until = time.monotonic() + deadline
        lines: list[str] = []
        while line not in lines:
            self._socket.settimeout(max(until - time.monotonic(), 0.001))
            try:
                lines += self._socket.recv(4096).decode().splitlines()
            except TimeoutError:
                raise TimeoutError(f"{line} did not come within {deadline:g} s, only {lines}") from None
        return lines

    def drain(self) -> list[str]:
        """Lines of all messages that are there."""
        self._socket.setblocking(False)
        lines: list[str] = []
        while True:
            try:
                lines += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        if not self.address.startswith("@"):
            Path(self.address).unlink()
