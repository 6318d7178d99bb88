"""Addresses at which a process offers its metrics, as options name them."""

from __future__ import annotations

import socket

from seqferry.model.errors import ConfigError, UsageError


def parse_address(written: str, option: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, where nothing listens yet: a taken one is seen before anything else begins.

    Raises:
        UsageError: the text has another form; ``option`` is named.
        ConfigError: another process listens there, or this machine does not have the address.
    """
    host, colon, port = written.rpartition(":")
    if not colon or not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise UsageError(f"{option}: '{written}' is not an address; write for example 127.0.0.1:9464.")
    found = host.strip("[]"), int(port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(*found, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as why:
        raise unavailable_error(found, option, why) from None
    return found


def unavailable_error(place: tuple[str, int], option: str, why: OSError) -> ConfigError:
    """The error for an address at which metrics cannot be served."""
    host, port = place
    return ConfigError(f"Cannot serve metrics on {host}:{port}: {why.strerror or why}. Choose another {option}.")
