"""Requests to a gateway that serves: one line of JSON in, one out, at the socket in its cache.

The gateway decides and answers (``crates/gateway/src/control.rs``); this only asks.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from seqferry.model.errors import ConfigError

_SOCKET: Final = "gateway.sock"
_MOST: Final = 64 << 20
"""Bytes of an answer: ten thousand names of 1,024 bytes, each byte written as six, and their facts."""
_PIECE: Final = 1 << 16


def ask(cache: Path, command: str, **facts: Any) -> dict[str, Any]:
    """The answer of the gateway whose cache this is. Waits for as long as it works.

    Args:
        command: ``status``, ``ls``, ``flush``, ``refresh``, ``conflicts`` or ``drain``, with its ``facts``.

    Raises:
        ConfigError: no gateway answers there, or it refuses the request, with its reason.
    """
    line = json.dumps({"command": command, **{name: fact for name, fact in facts.items() if fact is not None}})
    try:
        answer = json.loads(_exchange(cache, line.encode() + b"\n"))
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


def _exchange(cache: Path, line: bytes) -> bytes:
    # Paths of sockets have 107 bytes at most: that of the folder is the short one of its descriptor.
    folder = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{folder}/{_SOCKET}")
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
    finally:
        os.close(folder)
