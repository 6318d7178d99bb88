"""A throw-away PostgreSQL on loopback: one server per run, a fresh database per test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import uuid
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from support import lifelines
from support.run import MissingToolError, Run, log_tail
from support.servers import free_ports
from support.waiting import eventually

_READY_WITHIN: Final = 60.0

_SETTINGS: Final = {"max_connections": "400", "shared_buffers": "128MB"}

# Nothing here outlives a test: durability against power failures would only cost time.
_LAX: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


_INITDB: Final = ("--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")


@dataclass(frozen=True)
class Postgres:
    port: int

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, encoding: str | None = None) -> str:
        """A fresh database, in the server's encoding or in another; returns its name."""
        name = f"test_{uuid.uuid4().hex[:16]}"
        more = f" ENCODING '{encoding}' TEMPLATE template0" if encoding else ""
        self._execute(f'CREATE DATABASE "{name}"{more}')
        return name

    def drop_database(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def pid(self) -> int:
        """The server's first process; all others are its children."""
        with psycopg.connect(self.url()) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            stat = Path(f"/proc/{row[0]}/stat").read_text()
            return int(stat.rpartition(")")[2].split()[1])

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Stop the whole server, as a host that hangs: the kernel still takes and acknowledges what is sent."""
        with frozen_server(self.pid()):
            yield

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def frozen_server(first: int) -> Generator[None]:
    """Stop a server, named by its first process, as ``Postgres.frozen`` does; it may have ended by the end."""
    # Before its children are listed: it begins no more of them then. Any of them may end by itself meanwhile.
    os.kill(first, signal.SIGSTOP)
    stopped = [first]
    try:
        for pid in _children(first):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        yield
    finally:
        for pid in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def start(run: Run, *, durable: bool = False, more: Mapping[str, str] | None = None) -> Postgres:
    """The run's PostgreSQL, with more settings when given; the first to ask decides.

    ``durable``: it survives a power failure, as in production.

    Raises:
        support.run.MissingToolError: its binaries are not installed.
    """
    return Postgres(**run.once("postgres", lambda: _start(run, more or {}, durable=durable)))


@contextmanager
def own(run: Run) -> Generator[Postgres]:
    """A server beside the run's, to be harmed; it ends with the block.

    Raises:
        support.run.MissingToolError: its binaries are not installed.
    """
    postgres = Postgres(**_start(run, {}, durable=False))
    try:
        yield postgres
    finally:
        os.kill(postgres.pid(), signal.SIGQUIT)


class Cluster:
    """A server that is a child of this process, so that it can be killed and started again on its data.

    A context manager: server and data are gone at its end. The server ends at once when this process does.
    """

    def __init__(self, run: Run, *, more: Mapping[str, str] | None = None) -> None:
        """Makes the data; ``start`` starts the server on it, with more settings when given.

        Raises:
            support.run.MissingToolError: its binaries are not installed.
        """
        self._user = unprivileged()
        self._folder, self._data = _new_data(run, self._user, durable=False)
        [self.port] = free_ports(1)
        settings = [word for pair in (_SETTINGS | _LAX | dict(more or {})).items() for word in ("-c", "=".join(pair))]
        self._command = [
            *(str(_binaries() / "postgres"), "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port)),
            *("-k", str(self._folder), *settings),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        # Its only thread lives as long as this object: a child is told of the end of the thread that started it.
        self._starter = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop(signal.SIGQUIT)
        self._starter.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def server(self) -> Postgres:
        return Postgres(self.port)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the server on the data, with ``environment`` on top of this process's own, and wait until it answers.

        Raises:
            TimeoutError: it does not answer; what it printed last is in the text.
        """
        self._process = self._starter.submit(self._spawn, {**os.environ, **(environment or {})}).result()
        try:
            eventually(self._answers, what="PostgreSQL", deadline=_READY_WITHIN, quiet=(psycopg.OperationalError,))
        except TimeoutError as late:
            raise TimeoutError(f"{late}; it printed:\n{log_tail(self._folder)}") from late

    def _spawn(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        user = self._user
        with self._folder.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=lifelines.end_with_parent(signal.SIGQUIT),
                user=user[0] if user else None,
                group=user[1] if user else None,
                extra_groups=[] if user else None,
            )

    def stop(self, how: signal.Signals) -> None:
        """End the server by this signal: INT is a fast end, QUIT an immediate one, KILL none of its own."""
        process = self._process
        assert process is not None
        process.send_signal(how)
        process.wait(_READY_WITHIN)
        self._process = None

    def backends(self) -> list[int]:
        """The processes that serve connections of clients."""
        with psycopg.connect(self.server.url(), connect_timeout=2) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            return [row[0] for row in connection.execute(query)]

    def _answers(self) -> bool:
        psycopg.connect(self.server.url(), connect_timeout=2).close()
        return True


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def _binaries() -> Path:
    """The folder that holds ``initdb`` and ``postgres`` themselves, not a wrapper that picks a cluster."""
    candidates = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: folder.parent.name, reverse=True)
    for folder in (*versions, *candidates):
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise MissingToolError("PostgreSQL is not installed (Debian: apt-get install postgresql)")


def unprivileged() -> tuple[int, int] | None:
    """The user to run as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise MissingToolError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _new_data(run: Run, user: tuple[int, int] | None, *, durable: bool) -> tuple[Path, Path]:
    """The folder of a server, and in it one with fresh data."""
    # Each test has a database of 8 MiB: on a disk its files cost most of the server's CPU time.
    folder = run.new_folder("postgres", owner=user, in_memory=not durable)
    data = folder / "data"
    subprocess.run(
        [_binaries() / "initdb", "--pgdata", data, "--username", "postgres", *_INITDB],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        user=user[0] if user else None,
        group=user[1] if user else None,
        extra_groups=[] if user else None,
    )
    return folder, data


def _start(run: Run, more: Mapping[str, str], *, durable: bool) -> dict[str, Any]:
    binaries = _binaries()
    user = unprivileged()
    folder, data = _new_data(run, user, durable=durable)
    [port] = free_ports(1)
    chosen = {**_SETTINGS, **({} if durable else _LAX), **more}
    settings = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
    process = run.spawn(
        [binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, *settings],
        folder=folder,
        signal="QUIT",  # end at once, children and shared memory included
        user=user,
    )

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL does not start; it printed:\n{log_tail(folder)}")
        psycopg.connect(Postgres(port).url(), connect_timeout=2).close()
        return True

    eventually(ready, what="PostgreSQL", deadline=_READY_WITHIN, quiet=(psycopg.OperationalError,))
    return {"port": port}
