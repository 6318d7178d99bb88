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
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", listen))
        self.port: Final[int] = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._passing.set()

    def silence(self) -> None:
        """Take and acknowledge bytes without an answer, as a host that hangs or a firewall without the connection."""
        self._passing.clear()

    def resume(self) -> None:
        """Pass on what has come meanwhile, and all that follows."""
        self._passing.set()

    def cut(self) -> None:
        """Break all connections; new ones are taken."""
        with self._lock:
            broken, self._open = self._open, set()
        for each in broken:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def refuse(self) -> None:
        """Break all connections and refuse new ones, until ``accept``."""
        self._close_listener()
        self.cut()

    def accept(self) -> None:
        """Take connections again, at the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _close_listener(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else the thread that accepts keeps it open
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._passing.wait()
        with contextlib.suppress(OSError):
            server = socket.create_connection(self._target)
            with self._lock:
                self._open |= {client, server}
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()
            server.close()
            with self._lock:
                self._open -= {client, server}
        client.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(self._PIECE):
                self._passing.wait()
                target.sendall(piece)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
