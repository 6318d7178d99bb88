"""Checks of an NFS server from a client's machine, in the order in which a mount asks: port mapper, MOUNT, NFS.

Works with any server of NFS 3. Nothing is mounted.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Final

from seqferry.doctor.findings import Finding
from seqferry.engine.gateways import mount_command, port_options
from seqferry.model.frozen import frozen

PORT_MAPPER: Final = 111
NFS_PORT: Final = 2049

_PORT_MAP: Final = (100000, 2)
_NFS: Final = (100003, 3)
_MOUNT: Final = (100005, 3)
_GETPORT: Final = 3
_MNT: Final = 1
_UMNT: Final = 3
_EXPORT: Final = 5
_TCP: Final = 6
_UDP: Final = 17
_TIME_LIMIT: Final = 5.0
"""Seconds for a connection, and for a reply."""
_UDP_ATTEMPTS: Final = 3
_MAX_REPLY: Final = 1 << 20
_REFUSALS: Final = {
    1: "not permitted",
    2: "no such share",
    5: "an I/O error",
    13: "access denied",
    20: "not a folder",
    22: "an invalid path",
    63: "the name is too long",
    10004: "not supported",
    10006: "a server fault",
}
"""Statuses of MOUNT (RFC 1813, 5.1.5)."""
_ACCESS_DENIED: Final = 13

_CLOSED: Final = "the server closes connections of this machine"
_CLIENTS: Final = "Add the address of this machine to clients of the share, and start the gateway again."


class _NoReplyError(Exception):
    """No usable reply: the text says why."""


class _ClosedError(_NoReplyError):
    """The server closes the connection of this machine."""


class _RefusedError(Exception):
    """A call that reached a server of another program or version."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the call is refused, with status {status}")
        self.other_version = status == 2


@frozen
class _Ports:
    """Ports of a server, and the options that a mount needs."""

    nfs: int
    mount: int
    options: tuple[str, ...]


def check_server(host: str, share: str | None, port: int | None) -> Iterator[Finding]:
    """Check whether this machine can mount the shares of a server.

    Args:
        share: the share to mount, as /runs. None: only the list of shares is read.
        port: the port of NFS and MOUNT. None: the port mapper names it.
    """
    try:
        found = socket.getaddrinfo(host, NFS_PORT, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as why:
        yield Finding("name", "problem", f"{host} has no address: {why}", "Check the name, or write the address.")
        return
    address = found[0][4][0]
    assert isinstance(address, str)
    yield Finding("name", "ok", f"{host} is {address}" if address != host else address)
    ports = _named_ports(port) if port is not None else (yield from _port_mapper(address))
    if not (yield from _nfs(address, ports.nfs)):
        return
    mountable = yield from _shares(address, ports.mount, share)
    if mountable is not None:
        yield Finding("mount", "ok", mount_command(host, mountable, ports.options))


def _named_ports(port: int) -> _Ports:
    return _Ports(port, port, port_options(port))


def _port_mapper(address: str) -> Generator[Finding, None, _Ports]:
    """The ports that a port mapper names; else those of a server without one."""
    advice = "Open port 111 (TCP and UDP) in the firewall, or mount with the options port= and mountport=."

    def ask(connection: socket.socket, program: tuple[int, int]) -> int:
        return _port_of(_over_tcp(connection, _PORT_MAP, _GETPORT, struct.pack(">4I", *program, _TCP, 0)))

    try:
        with closing(_connect(address, PORT_MAPPER)) as connection:
            nfs, mount = ask(connection, _NFS), ask(connection, _MOUNT)
    except (_NoReplyError, _RefusedError) as why:
        yield Finding("port mapper", "warning", f"{address}:{PORT_MAPPER}: {why}", advice)
        return _named_ports(NFS_PORT)
    if not nfs or not mount:
        missing = " and ".join(name for name, port in (("NFS 3", nfs), ("MOUNT 3", mount)) if not port)
        text = f"the port mapper knows no {missing} over TCP"
        yield Finding("port mapper", "warning", text, "Start the gateway there with --port-mapper, or name its port.")
        return _named_ports(NFS_PORT)
    yield Finding("port mapper", "ok", f"NFS 3 is at port {nfs}, MOUNT 3 at port {mount}")
    try:
        at_udp = _port_of(_over_udp(address, PORT_MAPPER, _PORT_MAP, _GETPORT, struct.pack(">4I", *_MOUNT, _UDP, 0)))
        if at_udp:
            _over_udp(address, at_udp, _MOUNT, 0, b"")
    except (_NoReplyError, _RefusedError) as why:
        advice = "Open the ports for UDP as well, or mount with mountproto=tcp: a mount waits before it asks over TCP."
        yield Finding("UDP", "warning", f"no reply over UDP: {why}", advice)
        return _Ports(nfs, mount, ("mountproto=tcp",))
    yield Finding("UDP", "ok", f"MOUNT 3 answers at port {at_udp}" if at_udp else "MOUNT is served over TCP alone")
    return _Ports(nfs, mount, ())


def _nfs(address: str, port: int) -> Generator[Finding, None, bool]:
    """True when NFS 3 answers."""
    try:
        with closing(_connect(address, port)) as connection:
            _over_tcp(connection, _NFS, 0, b"")
            yield Finding("NFS 3", "ok", f"answers at port {port}")
            try:
                _over_tcp(connection, (_NFS[0], 4), 0, b"")
            except _RefusedError as why:
                if why.other_version:
                    yield Finding("NFS 4", "ok", "is refused, and clients take version 3")
                    return True
                raise
            yield Finding("NFS 4", "ok", "answers as well: clients take it first. vers=3 chooses version 3")
            return True
    except _NoReplyError as why:
        advice = f"Open port {port} (TCP) in the firewall, and check that the gateway runs and listens at {address}."
        if isinstance(why, _ClosedError):
            advice = _CLIENTS
        yield Finding("NFS 3", "problem", f"{address}:{port}: {why}", advice)
    except _RefusedError as why:
        text = f"{address}:{port}: the program there does not serve NFS 3: {why}"
        yield Finding("NFS 3", "problem", text, "Name the port of the gateway with --port.")
    return False


def _shares(address: str, port: int, share: str | None) -> Generator[Finding, None, str | None]:
    """A share that this machine may mount, if there is one."""
    try:
        with closing(_connect(address, port)) as connection:
            names = list(_exports(_over_tcp(connection, _MOUNT, _EXPORT, b"")))
            status = None
            if share is not None:
                path = _opaque(share.encode())
                (status,) = struct.unpack_from(">I", _over_tcp(connection, _MOUNT, _MNT, path))
                if status == 0:
                    _over_tcp(connection, _MOUNT, _UMNT, path)
    except (_NoReplyError, _RefusedError, struct.error) as why:
        advice = f"Open port {port} (TCP) in the firewall, or name the port of the gateway with --port."
        yield Finding("shares", "problem", f"MOUNT 3 at {address}:{port}: {why}", advice)
        return None
    if names:
        yield Finding("shares", "ok", f"this machine may mount {', '.join(names)}")
    else:
        yield Finding("shares", "problem", "this machine may mount none of the shares", _CLIENTS)
    if status == 0:
        yield Finding("share", "ok", f"{share} can be mounted")
        return share
    if status is not None:
        text = f"{share} cannot be mounted: {_REFUSALS.get(status, f'status {status}')}"
        advice = _CLIENTS if status == _ACCESS_DENIED else "Choose one of the shares that are listed."
        yield Finding("share", "problem", text, advice)
        return None
    return names[0] if names else None


def _connect(address: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((address, port), timeout=_TIME_LIMIT)
    except TimeoutError:
        raise _NoReplyError(f"no reply to a connection within {_TIME_LIMIT:.0f} s: a firewall may drop it") from None
    except OSError as why:
        raise _NoReplyError(f"no connection: {os.strerror(why.errno) if why.errno else why}") from None


def _call(program: tuple[int, int], procedure: int, arguments: bytes) -> tuple[bytes, bytes]:
    """Number and bytes of a call, without credentials of a user: those of the anonymous user suffice."""
    number = os.urandom(4)
    user = struct.pack(">5I", 0, 0, 65534, 65534, 0)
    credentials = struct.pack(">2I", 1, len(user)) + user + struct.pack(">2I", 0, 0)
    return number, number + struct.pack(">5I", 0, 2, *program, procedure) + credentials + arguments


def _over_tcp(connection: socket.socket, program: tuple[int, int], procedure: int, arguments: bytes) -> bytes:
    number, call = _call(program, procedure, arguments)
    try:
        connection.sendall(struct.pack(">I", 1 << 31 | len(call)) + call)
        reply = b""
        is_last = False
        while not is_last:
            (mark,) = struct.unpack(">I", _read(connection, 4))
            is_last = bool(mark >> 31)
            length = mark & (1 << 31) - 1
            if len(reply) + length > _MAX_REPLY:
                raise _NoReplyError("the program there does not speak the protocol of NFS")
            reply += _read(connection, length)
    except TimeoutError:
        raise _NoReplyError(f"no reply to a call within {_TIME_LIMIT:.0f} s") from None
    except OSError:
        raise _ClosedError(_CLOSED) from None
    return _result(reply, number)


def _read(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = connection.recv(length - len(found))
        if not more:
            raise _ClosedError(_CLOSED)
        found += more
    return found


def _over_udp(address: str, port: int, program: tuple[int, int], procedure: int, arguments: bytes) -> bytes:
    number, call = _call(program, procedure, arguments)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_TIME_LIMIT / _UDP_ATTEMPTS)
        try:
            sock.connect((address, port))
            for _ in range(_UDP_ATTEMPTS):
                sock.send(call)
                try:
                    return _result(sock.recv(_MAX_REPLY), number)
                except TimeoutError:
                    continue
        except OSError as why:
            raise _NoReplyError(os.strerror(why.errno) if why.errno else str(why)) from None
    raise _NoReplyError(f"port {port} does not answer within {_TIME_LIMIT:.0f} s: a firewall may drop UDP")


def _result(reply: bytes, number: bytes) -> bytes:
    """The result in the reply to a call."""
    try:
        kind, state, _flavor, length, status = struct.unpack_from(">5I", reply, 4)
    except struct.error:
        kind = state = length = status = -1
    if reply[:4] != number or kind != 1:
        raise _NoReplyError("the program there does not speak the protocol of NFS")
    if state == 1:
        raise _NoReplyError("the call is denied")
    if state != 0 or length != 0:
        raise _NoReplyError("the program there does not speak the protocol of NFS")
    if status != 0:
        raise _RefusedError(status)
    return reply[24:]


def _port_of(result: bytes) -> int:
    try:
        (port,) = struct.unpack(">I", result)
    except struct.error:
        port = -1
    if not 0 <= port <= 65535:
        raise _NoReplyError("its reply is no port")
    return int(port)


def _opaque(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value + bytes(-len(value) % 4)


def _exports(result: bytes) -> Iterator[str]:
    """Names in the reply to EXPORT: of each share, after it the groups that may mount it."""
    at = 0

    def number() -> int:
        nonlocal at
        (value,) = struct.unpack_from(">I", result, at)
        at += 4
        return int(value)

    def text() -> str:
        nonlocal at
        length = number()
        value = result[at : at + length]
        at += length + -length % 4
        return value.decode(errors="replace")

    while number():
        yield text()
        while number():
            text()
