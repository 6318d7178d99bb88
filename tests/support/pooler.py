"""PgBouncer before the run's PostgreSQL, in the mode that a test asks for."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psycopg

from support.postgres import Postgres, unprivileged
from support.run import MissingToolError, Run, find_tool, log_tail
from support.servers import free_ports
from support.waiting import eventually

Mode = Literal["session", "transaction", "statement"]

_HINT: Final = "apt-get install pgbouncer, or name it in SEQFERRY_PGBOUNCER"
_OF_DEBIAN: Final = Path("/usr/sbin/pgbouncer")
"""Not on the path of every user."""


@dataclass(frozen=True)
class Pooler:
    port: int

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"


def start(run: Run, postgres: Postgres, mode: Mode, *, connections: int = 20) -> Pooler:
    """A pooler with so many connections to the server, which ends with the run.

    Raises:
        support.run.MissingToolError: PgBouncer is not installed.
    """
    binary = _binary()
    user = unprivileged()
    folder = run.new_folder("pgbouncer", owner=user)
    [port] = free_ports(1)
    users, settings = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text('"postgres" ""\n')
    settings.write_text(
        "\n".join(
            [
                "[databases]",
                f"* = host=127.0.0.1 port={postgres.port}",
                "[pgbouncer]",
                "listen_addr = 127.0.0.1",
                f"listen_port = {port}",
                "unix_socket_dir =",
                f"auth_file = {users}",
                "auth_type = trust",
                f"pool_mode = {mode}",
                f"default_pool_size = {connections}",
                "max_client_conn = 400",
                # A database that a test drops is not held by an idle connection.
                "server_idle_timeout = 1",
            ]
        )
    )
    process = run.spawn([binary, settings], folder=folder, signal="INT", user=user)

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PgBouncer does not start; it printed:\n{log_tail(folder)}")
        psycopg.connect(Pooler(port).url("postgres"), connect_timeout=2, autocommit=True).close()
        return True

    eventually(ready, what="PgBouncer", deadline=30.0, quiet=(psycopg.OperationalError,))
    return Pooler(port)


def _binary() -> Path:
    try:
        return find_tool("pgbouncer", variable="SEQFERRY_PGBOUNCER", hint=_HINT)
    except MissingToolError:
        if os.access(_OF_DEBIAN, os.X_OK) and shutil.which("pgbouncer") is None:
            return _OF_DEBIAN
        raise
