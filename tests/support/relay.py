"""A TCP relay that can fall silent: it takes connections and bytes as before, and passes nothing on until it may."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, Self


class Relay:
    """Listens on loopback and passes everything on to ``port``. A context manager."""

    _PIECE: Final = 65_536

    def __init__(self, port: int, *, listen: int = 0) -> None:
        self._target = ("127.0.0.1", port)
        self._passing = threading.Event()
        self._passing.set()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", listen))
        self.port: Final[int] = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._passing.set()

    def silence(self) -> None:
        """Take and acknowledge bytes without an answer, as a host that hangs or a firewall without the connection."""
        self._passing.clear()

    def resume(self) -> None:
        """Pass on what has come meanwhile, and all that follows."""
        self._passing.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._passing.wait()
        with contextlib.suppress(OSError):
            server = socket.create_connection(self._target)
            self._open += [client, server]
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
            self._pump(client, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(self._PIECE):
                self._passing.wait()
                target.sendall(piece)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
