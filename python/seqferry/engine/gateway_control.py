"""Requests to a gateway that serves: one line of JSON in, one out, at the socket in its cache.

The gateway decides and answers (``crates/gateway/src/control.rs``); this only asks.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from seqferry.model.errors import ConfigError

_SOCKET: Final = "gateway.sock"
_MOST: Final = 64 << 20
"""Bytes of an answer: ten thousand names of 1,024 bytes, each byte written as six, and their facts."""
_PIECE: Final = 1 << 16

_LOCK: Final = "gateway.lock"
"""File in its cache that a gateway, or a mount that is written, holds open."""

_EPOCHS: Final = "writes/*/journal/*.epoch"
"""Outcomes of uploads in a cache that the record has not taken (``crates/gateway/src/upload_batches.rs``)."""

RECORD_SECONDS: Final = 10.0
"""Longest wait for the record: five polls of the gateway. The database may be unavailable for days."""

_LAST_SECONDS: Final = 30.0
"""Longest wait for the end of a gateway that has nothing left to upload."""

_LOOK_SECONDS: Final = 0.1


def find_running() -> list[Path]:
    """Caches of the gateways, and of the mounts that are written, which this user can ask on this machine."""
    found: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of others, and those that have just ended.
        with suppress(OSError):
            for descriptor in os.scandir(process / "fd"):
                with suppress(OSError):
                    opened = Path(descriptor.path).readlink()
                    if opened.name == _LOCK and (opened.parent / _SOCKET).is_socket():
                        found.add(opened.parent)
    return sorted(found)


def list_epochs(cache: Path) -> frozenset[Path]:
    """Epochs of the shares of a cache that are not on record yet."""
    return frozenset(cache.glob(_EPOCHS))


def wait_for_record(
    cache: Path, epochs: Collection[Path], process: int | None, seconds: float = RECORD_SECONDS
) -> bool:
    """Wait until these epochs are on record. False: it takes longer, or the process that does it has ended."""
    deadline = time.monotonic() + seconds
    has_ended = False
    while not list_epochs(cache).isdisjoint(epochs):
        if has_ended or time.monotonic() > deadline:
            return False
        if process is None:
            time.sleep(_LOOK_SECONDS)
        else:
            has_ended = wait_for_end(process, _LOOK_SECONDS)
    return True


@contextmanager
def open_process(cache: Path) -> Generator[int | None]:
    """A descriptor of the process that serves, for ``wait_for_record`` and ``wait_for_end``.

    None where it cannot be had: the process has ended, or is one of another container.
    """
    process: int | None = None
    with suppress(OSError), _connected(cache) as connection:
        size = struct.calcsize("3i")
        pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
        process = os.pidfd_open(pid) if pid > 0 else None
    try:
        yield process
    finally:
        if process is not None:
            os.close(process)


def wait_for_end(process: int, seconds: float = _LAST_SECONDS) -> bool:
    """Wait for the end of a process. False: it takes longer."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(1000 * seconds))


def ask(cache: Path, command: str, *, seconds: float | None = None, **facts: Any) -> dict[str, Any]:
    """The answer of the gateway whose cache this is.

    Args:
        command: ``status``, ``files``, ``ls``, ``flush``, ``refresh``, ``conflicts`` or ``drain``, with its ``facts``.
        seconds: longest pause before the answer; None: for as long as the gateway works.

    Raises:
        ConfigError: no gateway answers there, or it refuses the request, with its reason.
    """
    line = json.dumps({"command": command, **{name: fact for name, fact in facts.items() if fact is not None}})
    try:
        answer = json.loads(_exchange(cache, line.encode() + b"\n", seconds))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise ConfigError(
            f"No gateway runs with the cache {cache}: start one with seqferry gateway serve --cache {cache}, or name "
            "the cache of the one that runs."
        ) from None
    except PermissionError:
        raise ConfigError(
            f"The gateway with the cache {cache} belongs to another user: ask it as the user that it runs as."
        ) from None
    except (OSError, ValueError) as why:
        raise ConfigError(
            f"The gateway with the cache {cache} gave no answer ({why}): it may have ended; try again."
        ) from None
    if "error" in answer:
        raise ConfigError(f"{answer['error']}".rstrip(".") + ".")
    return cast("dict[str, Any]", answer["ok"])


@contextmanager
def _connected(cache: Path) -> Generator[socket.socket]:
    # Paths of sockets have 107 bytes at most: that of the folder is the short one of its descriptor.
    folder = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{folder}/{_SOCKET}")
            yield connection
    finally:
        os.close(folder)


def _exchange(cache: Path, line: bytes, seconds: float | None) -> bytes:
    with _connected(cache) as connection:
        connection.settimeout(seconds)
        # Where it has no room for a client it answers before it has read.
        with suppress(BrokenPipeError):
            connection.sendall(line)
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = connection.recv(_PIECE)
            if not piece:
                raise ConnectionResetError("the connection was closed")
            answer += piece
            if len(answer) > _MOST:
                raise ValueError("the answer is too long")
        return bytes(answer)
