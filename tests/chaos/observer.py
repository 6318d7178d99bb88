"""What an observer sees of a run, past all faults: requests at the proxy, and rows by plain SQL."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import psycopg

from chaos.world import World
from support.proxy import Record

_PARTS: Final = ("UploadPart", "UploadPartCopy")
_WHOLE: Final = ("CopyObject", "PutObject", "CompleteMultipartUpload")
_ROWS_SECONDS: Final = 0.25
_LOG_SECONDS: Final = 1.0
_STATEMENT_MS: Final = 5000


class Effect(NamedTuple):
    """A request that the server carried out."""

    operation: str
    started: float
    ended: float
    told: bool
    """The client was told so."""
    size: int


@dataclass
class Seen:
    """Requests of the run since the last calm phase, and counters over all of it."""

    wholes: dict[str, list[Effect]] = field(default_factory=lambda: defaultdict(list))
    """By key: effects that made the object."""
    parts: dict[tuple[str, str, int], list[Effect]] = field(default_factory=lambda: defaultdict(list))
    """By key, upload and part."""
    listed: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """By upload: when its parts were listed."""
    created: dict[str, bool] = field(default_factory=dict[str, bool])
    """Uploads that were created, and whether the client was told."""
    removed: dict[str, list[Effect]] = field(default_factory=lambda: defaultdict(list))
    """By key."""
    operations: Counter[str] = field(default_factory=Counter[str])
    refused: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]])
    """Operation, key and part of requests that were answered 503."""


class Claim(NamedTuple):
    """Work that a worker held when it was killed, and when it was seen elsewhere or ended."""

    killed: float
    work: str
    taken: float


class Observer:
    """Watches while the block runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._each, args=(act, seconds), daemon=True)
            for act, seconds in ((self._read_log, _LOG_SECONDS), (self._read_rows, _ROWS_SECONDS))
        ]
        self._last = 0
        self._connection: psycopg.Connection | None = None
        self.seen = Seen()
        self.done_since: dict[tuple[str, str], float] = {}
        """By transfer and target key: a moment at which its row said done."""
        self.progress: list[tuple[float, int]] = []
        """Objects on record as ended, by time."""
        self.held: dict[str, str] = {}
        """Work on the queue, by the worker that has it, as last seen."""
        self.open: set[str] = set()
        """Unfinished transfers, as last seen."""
        self._ended_transfers: set[str] = set()
        self._waiting: dict[str, float] = {}
        self._killed: dict[str, str] = {}
        self.claims: list[Claim] = []
        self._states: dict[str, str] = {}
        self._listing: set[str] = set()
        self._conflicts: set[str] = set()
        self.counted: Counter[str] = Counter()
        """States that were met, by their names in ``sometimes.STATES``."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._connection is not None:
            self._connection.close()

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows, by a connection of its own; for calm phases."""
        with psycopg.connect(self._world.database_url, connect_timeout=5) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def catch_up(self) -> None:
        """Read the log to its end, which is then forgotten. For calm phases: nothing is in flight."""
        self._world.proxy.wait_idle(deadline=30)
        self._read_log()
        self._world.proxy.clear_log()

    def take(self) -> Seen:
        """What was seen since this was last asked."""
        with self._lock:
            taken, self.seen = self.seen, Seen()
            return taken

    def was_killed(self, pid: int, at: float) -> None:
        """Watch when the work of a worker that was killed is with another."""
        with self._lock:
            states = set(self._states.values())
            self.counted["paused at a kill"] += "paused" in states
            self.counted["cancelling at a kill"] += "cancelling" in states
            for work, holder in self.held.items():
                if f"-{pid}-" in holder:
                    if work in self._states and self._states[work] == "planning":
                        self._listing.add(work)
                    self._waiting[work] = at
                    self._killed[work] = holder

    def _each(self, act: Any, seconds: float) -> None:
        while not self._ended.wait(seconds):
            try:
                act()
            except (psycopg.Error, OSError, TimeoutError):
                # The database is away, by order: asked again.
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()

    # --- requests ---

    def _read_log(self) -> None:
        with self._lock:
            for one in self._world.proxy.log(after=self._last):
                self._last = one.number
                self._take_in(one)

    def _take_in(self, one: Record) -> None:
        seen = self.seen
        seen.operations[one.operation] += 1
        request = (one.operation, one.key or "", one.part_number or 0)
        if one.status == 503:
            seen.refused.add(request)
        elif one.succeeded and request in seen.refused:
            seen.refused.remove(request)
            self.counted["retried after 503"] += 1
        if not one.took_effect:
            return
        size = one.request_bytes
        effect = Effect(one.operation, one.started, one.ended or one.started, one.succeeded, size)
        key, upload = one.key or "", one.upload_id or ""
        if one.operation in _WHOLE:
            seen.wholes[key].append(effect)
        elif one.operation in _PARTS:
            seen.parts[key, upload, one.part_number or 0].append(effect)
        elif one.operation == "ListParts":
            seen.listed[upload].append((effect.started, effect.ended))
        elif one.operation == "CreateMultipartUpload":
            seen.created[upload] = one.succeeded
        elif one.operation == "DeleteObject":
            seen.removed[key].append(effect)

    # --- rows ---

    def _read_rows(self) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._world.database_url,
                connect_timeout=2,
                autocommit=True,
                options=f"-c statement_timeout={_STATEMENT_MS}",
            )
        rows = self._connection.execute
        held = dict(
            rows("SELECT workflow_uuid, executor_id FROM dbos.workflow_status WHERE status = 'PENDING'").fetchall()
        )
        opened = rows("SELECT id, state, blocked_by FROM transfer WHERE ended_at IS NULL").fetchall()
        unfinished = {row[0] for row in opened}
        looked = (unfinished | self.open) - self._ended_transfers
        done = rows(
            "SELECT transfer_id, target_key FROM object WHERE transfer_id = ANY(%s) AND state = 'done'", (list(looked),)
        ).fetchall()
        total = rows("SELECT coalesce(sum(done + skipped + failed), 0)::bigint FROM tally").fetchall()[0][0]
        now = time.time()
        with self._lock:
            self.held = held
            self._states = {row[0]: row[1] for row in opened}
            blocked = {row[0] for row in opened if row[2]} - self._conflicts
            self._conflicts |= blocked
            self.counted["conflict"] += len(blocked)
            self._ended_transfers |= self.open - unfinished
            self.open = unfinished
            for place in done:
                self.done_since.setdefault(place, now)
            if not self.progress or self.progress[-1][1] != total:
                self.progress.append((now, total))
            for work, at in list(self._waiting.items()):
                if held.get(work) != self._killed[work] and (work in held or not self._is_open(work)):
                    self.claims.append(Claim(at, work, now))
                    self.counted["batch taken over" if ":b" in work else "transfer taken over"] += 1
                    if work in self._listing:
                        self._listing.remove(work)
                        self.counted["listing resumed"] += 1
                    del self._waiting[work], self._killed[work]

    def _is_open(self, work: str) -> bool:
        """Whether the work is left to do: its workflow waits on the queue."""
        assert self._connection is not None
        found = self._connection.execute(
            "SELECT status FROM dbos.workflow_status WHERE workflow_uuid = %s", (work,)
        ).fetchone()
        return found is not None and found[0] in {"ENQUEUED", "PENDING", "DELAYED"}
