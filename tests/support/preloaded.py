"""Processes of ``seqferry`` that begin as a fork of one that has imported it already.

A short command takes half a CPU second, most of it for imports.
One parent for each process of the test run imports the command once, and forks for each run: the child has its own
session, environment, folder and output, and calls what the installed script calls, or runs a program as ``python -c``
does.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final, NoReturn

_INT: Final = struct.Struct("<i")
_MOST: Final = 1 << 20
_FOR_INTERPRETERS: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "TZ")
"""Variables that are read before the command is."""


def can_run(environment: Mapping[str, str]) -> bool:
    """A process with this environment on top of ours differs from another only after its imports."""
    return "SEQFERRY_COMMAND" not in os.environ and not any(name.startswith(_FOR_INTERPRETERS) for name in environment)


class ForkedProcess:
    """The methods of ``subprocess.Popen`` that ``RunningProcess`` needs."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str, output: list[int]
    ) -> None:
        """Start ``seqferry`` or ``python -c``, in a session of its own and with standard output and error."""
        told, telling = os.pipe()
        request = {"arguments": list(arguments), "environment": dict(environment), "folder": folder}
        try:
            socket.send_fds(_parent(), [json.dumps(request).encode()], [*output, telling])
        finally:
            os.close(telling)
        self._told = os.fdopen(told, "rb", buffering=0)
        self.returncode: int | None = None
        self.pid = self._read()

    def _read(self) -> int:
        told = self._told.read(_INT.size)
        if len(told) != _INT.size:
            raise RuntimeError("the process that starts commands has ended")
        return int(_INT.unpack(told)[0])

    def _is_readable(self, timeout: float | None) -> bool:
        with selectors.PollSelector() as selector:  # ``select`` refuses descriptors from 1,024 on
            selector.register(self._told, selectors.EVENT_READ)
            return bool(selector.select(timeout))

    def poll(self) -> int | None:
        if self.returncode is None and self._is_readable(0):
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self._is_readable(timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = self._read()
        self._told.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


@cache
def _parent() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    atexit.register(process.kill)
    return ours


# --- in the parent of the commands -----------------------------------------------------------------------------------


_USED: Final = (
    *(
        "seqferry.service.service",
        "seqferry.workflows.worker",
        "seqferry.workflows.durable",
        "seqferry.workflows.schedule_ticks",
        "seqferry.workflows.inline",
        "seqferry.db.verifications",
        "seqferry.dbos.fair_queue",
    ),
    *("seqferry.api.server", "uvicorn.lifespan.off", "uvicorn.loops.asyncio"),
    *("seqferry.settings.environment", "dbos", "dbos._sys_db_sqlite", "alembic.command", "alembic.config"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"),
)
"""Modules that commands import while they work, beside those of their verbs."""


def _import_all() -> None:
    from seqferry.cli import app, command_tree

    for name in (*(f"seqferry.cli.commands.{name.replace('-', '_')}" for name in app.COMMANDS), *_USED):
        import_module(name)
    # Python keeps what annotations evaluate to: the options of a command are then made in half the time.
    command_tree.build_tree()


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request; returns in the children, with the arguments of the command."""
    woken, waking = os.pipe()
    for end in (woken, waking):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_ended(children)
        if requests not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, _MOST, 3)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid:
            children[pid] = descriptors.pop()
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.close()
        for descriptor in (woken, waking, *children.values()):
            os.close(descriptor)
        return _become(json.loads(message), *descriptors)


def _tell_of_ended(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        telling = children.pop(pid)
        with suppress(BrokenPipeError):  # no process waits for it any more
            os.write(telling, _INT.pack(os.waitstatus_to_exitcode(status)))
        os.close(telling)


def _become(request: dict[str, Any], output: int, errors: int, telling: int) -> list[str]:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for at, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, at)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # Not before the process has its session: the caller kills the whole session.
    os.write(telling, _INT.pack(os.getpid()))
    os.close(telling)
    arguments: list[str] = request["arguments"]
    return arguments


def _main() -> NoReturn:
    import gc

    _import_all()
    gc.freeze()
    command, *words = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command == sys.executable:
        option, program, *words = words
        sys.argv = [option, *words]
        exec(program, {"__name__": "__main__"})
    else:
        from seqferry.cli import main

        sys.argv = [command, *words]
        main()
    sys.exit(0)


if __name__ == "__main__":
    _main()
