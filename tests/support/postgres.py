"""A throw-away PostgreSQL on loopback: one server per run, a fresh database per test."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

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
        first = self.pid()
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

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


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


def _start(run: Run, more: Mapping[str, str], *, durable: bool) -> dict[str, Any]:
    binaries = _binaries()
    user = unprivileged()
    # Each test has a database of 8 MiB: on a disk its files cost most of the server's CPU time.
    folder = run.new_folder("postgres", owner=user, in_memory=not durable)
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "--pgdata", data, "--username", "postgres", *_INITDB],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        user=user[0] if user else None,
        group=user[1] if user else None,
        extra_groups=[] if user else None,
    )
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
