"""Addresses at which a process offers its metrics, as options name them."""

from __future__ import annotations

from seqferry.model.errors import UsageError


def place(written: str, option: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``.

    Raises:
        UsageError: the text has another form; ``option`` is named.
    """
    host, colon, port = written.rpartition(":")
    if not colon or not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise UsageError(f"{option}: '{written}' is no address; write for example 127.0.0.1:9464.")
    return host.strip("[]"), int(port)
