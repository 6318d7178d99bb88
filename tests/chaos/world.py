"""What is harmed: workers, a database and two storages, with the levers on each.

Workers reach the database each over a relay of its own, and SeaweedFS (or versitygw) over a relay and a recording
proxy. A worker that ends is started again, as a service manager does. The observers have ways of their own.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from chaos.clocks import Clock, build
from support.postgres import Cluster
from support.processes import RunningProcess, run, seqferry
from support.proxy import Proxy
from support.relay import Relay
from support.run import Run
from support.servers import Kind, S3Server
from support.servers import start as start_server
from support.sim import Simulator

DATABASE: Final = "ferry"
PLAIN_ROLE: Final = "mover"
"""Not a superuser: those keep connections in reserve."""

_CONNECTIONS: Final = 60
_DATABASE: Final = {"max_connections": str(_CONNECTIONS), "synchronous_commit": "on"}
"""What a server has acknowledged outlives its processes, as in production; the machine itself does not fail here."""
_SEEN: Final[dict[str, re.Pattern[str]]] = {
    "reaped": re.compile(r"a worker is gone; its work goes back to the queue"),
    "fenced off": re.compile(r"was taken over by another worker"),
    "lease lapsed": re.compile(r"the database did not answer for some time"),
    "database waited for": re.compile(r"Waiting until it is there"),
}
"""What workers say, and what it is counted as."""


class WorkerHost:
    """One worker, started again whenever it ends. A context manager: it is killed at the end."""

    _LOOK_SECONDS: Final = 0.1

    def __init__(self, name: str, relay: Relay, clock: Clock, environment: dict[str, str], options: list[str]) -> None:
        self.name: Final = name
        self.relay: Final = relay
        self.clock: Final = clock
        self._environment = environment | clock.environment
        self._options = options
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._not_before = 0.0
        self.said: Counter[str] = Counter()
        self.tracebacks: list[str] = []
        self.starts = 0
        self._process: RunningProcess | None = None
        self._keeper = threading.Thread(target=self._keep, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._keeper.join()
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._bury()

    @property
    def pid(self) -> int:
        with self._lock:
            return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        with self._lock:
            return self._process is not None and self._process.running

    def kill(self, pause: float) -> None:
        with self._lock:
            self._not_before = time.monotonic() + pause
            if self._process is not None:
                self._process.kill()

    def signal(self, number: signal.Signals) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._process is not None and self._process.running:
                self._process.signal(number)

    def _keep(self) -> None:
        while not self._ended.wait(self._LOOK_SECONDS):
            with self._lock:
                if self._process is not None and not self._process.running:
                    self._bury()
                if self._process is None and time.monotonic() >= self._not_before:
                    self.starts += 1
                    command = [seqferry(), "worker", *self._options]
                    # This thread lives until ``__exit__``: a worker outlives neither the run nor its kill.
                    self._process = RunningProcess(command, environment=self._environment, is_bound=True)

    def _bury(self) -> None:
        assert self._process is not None
        words = self._process.stderr
        self.said.update({name: len(pattern.findall(words)) for name, pattern in _SEEN.items()})
        self.said["tracebacks"] += words.count("Traceback (most recent call last)")
        if (at := words.find("Traceback (most recent call last)")) >= 0:
            self.tracebacks.append(words[max(0, at - 500) : at + 3500])
        self._process.__exit__()
        self._process = None


class World:
    """All of it. A context manager."""

    def __init__(self, run_: Run, folder: Path, *, workers: int, server: Kind, buckets: list[str]) -> None:
        self._run = run_
        self._folder = folder
        self._size = workers
        self._buckets = buckets
        self._kind: Kind = server
        self._held = ExitStack()
        self.on_kill: Callable[[int, float], None] = lambda _pid, _at: None

    def __enter__(self) -> Self:
        with self._held:
            hold = self._held.enter_context
            self._folder.chmod(0o711)
            library = build(self._folder)
            self.server: S3Server = start_server(self._run, self._kind)
            self.proxy = hold(Proxy(self.server))
            self.storage_relay = hold(Relay(int(self.proxy.endpoint_url.rpartition(":")[2])))
            self.endpoint = f"http://127.0.0.1:{self.storage_relay.port}"
            self.simulator = hold(Simulator("--instant", *self._buckets))
            self.database_clock = Clock(library, self._folder / "database-clock")
            self.cluster = hold(Cluster(self._run, more=_DATABASE))
            self.cluster.start(self.database_clock.environment)
            self._make_database()
            self.bucket = self.server.create_bucket()
            self.workers = [hold(self._worker(number, library)) for number in range(self._size)]
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self.server.delete_bucket(self.bucket)

    @property
    def database_url(self) -> str:
        """For observers: past the relays, as a superuser."""
        return self.cluster.server.url(DATABASE)

    def url_over(self, port: int) -> str:
        return f"postgresql://{PLAIN_ROLE}@127.0.0.1:{port}/{DATABASE}"

    def environment(self, name: str, database_port: int) -> dict[str, str]:
        """Settings of a process of Seqferry here."""
        state = self._folder / name
        return replace(self.server, endpoint_url=self.endpoint).environment() | {
            "SEQFERRY_STATE_DIR": str(state),
            "SEQFERRY_DATABASE_URL": self.url_over(database_port),
            "XDG_CONFIG_HOME": str(self._folder / "config"),  # all write the record with one audit key
        }

    def ferry(self, *words: str, deadline: float = 30.0) -> tuple[int, str, str]:
        """A command as a person types it: status, output, errors. Status 124: it did not end in time."""
        environment = self.environment("person", self.cluster.port)
        try:
            ended = run(
                [seqferry(), *words], environment=environment, deadline=deadline, expect=None, is_preloaded=True
            )
        except TimeoutError as late:
            return 124, "", str(late)
        return ended.returncode, ended.stdout, ended.stderr

    def words(self) -> Counter[str]:
        """What the workers that have ended said, counted."""
        return sum((worker.said for worker in self.workers), Counter[str]())

    @contextlib.contextmanager
    def connections_used_up(self) -> Generator[int]:
        """Hold every connection that a plain role may have."""
        import psycopg

        held: list[psycopg.Connection] = []
        try:
            with contextlib.suppress(psycopg.OperationalError):
                while len(held) < _CONNECTIONS:
                    held.append(psycopg.connect(self.url_over(self.cluster.port), connect_timeout=2))
            yield len(held)
        finally:
            for each in held:
                each.close()

    def _make_database(self) -> None:
        import psycopg

        with psycopg.connect(self.cluster.server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {PLAIN_ROLE} LOGIN".encode())
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {PLAIN_ROLE}".encode())
        status, _, errors = self.ferry("workers")
        assert status == 0, errors

    def _worker(self, number: int, library: Path | None) -> WorkerHost:
        name = f"worker{number}"
        relay = self._held.enter_context(Relay(self.cluster.port))
        clock = Clock(library, self._folder / f"{name}-clock")
        return WorkerHost(name, relay, clock, self.environment(name, relay.port), ["--max-requests", "16"])
