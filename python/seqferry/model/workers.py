"""Processes that do work, as they report themselves: workers, servers, later gateways."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, Literal

from seqferry.model.frozen import frozen

ProcessKind = Literal["worker", "serve", "http", "gateway"]
"""Kinds of processes. Stored in rows. ``serve``: a server that works as well; ``http``: one that only answers."""

WORKING_KINDS: tuple[ProcessKind, ...] = ("worker", "serve")
"""Kinds that take transfers off the queue."""

SERVING_KINDS: tuple[ProcessKind, ...] = ("serve", "http")
"""Kinds that answer HTTP, with ``URL`` among their facts."""

URL: Final = "url"
"""Name of the fact of a server: the address that it listens at."""


WAITING: Final = "waiting"
"""Name of the fact of a gateway, or of a mount that is written: by share, what is not in the bucket yet.

Of each share that is written: ``dirty_files``, ``dirty_bytes``, ``failing_files``, ``conflicts``, ``window_is_open``,
and ``oldest_dirty_seconds`` (None: nothing waits).
"""

SHARES: Final = "share_details"
"""Name of the fact of a gateway, or of a mount that is written: by share, more of its state, as the page shows it.

``source``, ``read_bytes`` and ``fetched_bytes``; of a share that is written also ``engine.gateways.DETAILS``.
"""

IS_DRAINING: Final = "is_draining"
"""Name of the fact of a gateway: it accepts no changes, and ends when all files are in S3."""

SLOT: Final = "slot"
"""Name of the fact of a worker: its number among those that ``seqferry workers scale`` starts."""

FOLDERS: Final = "folders"
SHARED_FOLDERS: Final = "shared_folders"
"""Names of the facts of a worker: local folders that it serves, of its host and of all that have mounted them."""


@frozen
class Process:
    """One start of a process. ``id`` is never used again, and is the executor id of its work on PostgreSQL."""

    id: str
    kind: ProcessKind
    host: str
    pid: int
    version: str
    """Version of Seqferry."""
    schema_head: str
    """Newest migration of the database that it knows."""
    shape: str
    """``names.WORKFLOW_SHAPE``."""

    @property
    def name(self) -> str:
        """Name in the record of events: the id without the part that tells processes of a machine apart."""
        return self.id.partition("@")[0]


@frozen
class LimiterWindow:
    """Limits that a worker has found for requests to one prefix; bucket and prefix are empty for all others together.

    Attributes:
        access: ``read`` or ``write``.
        requests: requests that may be in flight.
        rate: requests that may begin per second; None where the service has not throttled.
    """

    bucket: str
    prefix: str
    access: str
    requests: int
    rate: float | None
    in_flight: int


@frozen
class Limits:
    """Limits of a process that hold now: requests in flight, bytes/s, requests started per second, bytes of buffers."""

    max_requests: int
    max_bandwidth: int | None
    tpslimit: int | None
    memory: int | None


@frozen
class Activity:
    """Work of a process now, and what it takes.

    Attributes:
        lanes: those it takes work from (``spec.identity.lane``); None: that of all workers.
        facts: of its kind alone.
    """

    lanes: tuple[str | None, ...]
    limits: Limits | None
    resident: int | None
    """Bytes of memory; None where the system does not say."""
    transfers: int
    """Transfers that it is at."""
    in_flight: int
    """Requests in flight."""
    windows: tuple[LimiterWindow, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def listed_facts(self) -> dict[str, Any]:
        """Facts in lists of processes: those of single files of shares are left to the list of shares."""
        return {name: fact for name, fact in self.facts.items() if name != SHARES}


NO_ACTIVITY: Final = Activity(lanes=(), limits=None, resident=None, transfers=0, in_flight=0)
"""Of a process that does no work, or has not said yet what it does."""


@frozen
class ProcessStatus:
    """A process on record.

    Attributes:
        alive: it has given a sign of life in the last seconds.
        draining: it is to end when the batches that it is at have ended, and takes no others.
        gone: it has ended without a word, and its work was given to others or another process is in its place.
    """

    process: Process
    activity: Activity
    since: float
    seen_at: float
    alive: bool
    draining: bool = False
    gone: bool = False

    @property
    def state(self) -> Literal["alive", "draining", "gone", "silent"]:
        if self.alive:
            return "draining" if self.draining else "alive"
        return "gone" if self.gone else "silent"

    def is_replaced_by(self, other: ProcessStatus) -> bool:
        """True when the other one, alive, was started after the last sign of this one, to do the same.

        Of servers each does the same. A gateway has the shares of its own host; other hosts may call theirs the same.
        """
        if self.alive or not other.alive or other.since < self.seen_at:
            return False
        if self.process.kind == "gateway":
            return other.process.kind == "gateway" and self._serves() == other._serves()
        return self.process.kind in SERVING_KINDS and other.process.kind in SERVING_KINDS

    def _serves(self) -> tuple[Any, ...]:
        facts = self.activity.facts
        return self.process.host, facts.get("shares"), facts.get("directory"), facts.get("source")
