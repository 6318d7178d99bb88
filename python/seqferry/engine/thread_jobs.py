"""Jobs in Python, for work that the engine has no jobs for: a thread that acts on a chunk of the batch at a time.

What must stay true: each object ends once, and none that was not acted on is told of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

from seqferry.engine.engine import LEASE_LAPSED
from seqferry.engine.executor import Counts, CreatedUpload
from seqferry.model.errors import SeqferryError, StorageError
from seqferry.model.models import RESULT_COLUMNS, ObjectState

_LAPSED: Final = "The lease of this worker has lapsed; the batch is run again."


@dataclass(frozen=True, slots=True)
class End:
    """Outcome of one object; see ``models.RESULT_COLUMNS``."""

    id: int
    state: ObjectState
    size: int = 0
    etag: str = ""
    method: str = "none"
    target_version_id: str | None = None
    target_etag: str | None = None
    checksum_algorithm: str | None = None
    checksum: str | None = None
    verified: str = "none"
    failure: StorageError | None = None


class Ends:
    """See ``executor.Events``."""

    begun: Sequence[CreatedUpload] = ()

    def __init__(self, ends: Sequence[tuple[float, float, End]], cancelled: Sequence[int]) -> None:
        self.cancelled = cancelled
        self.ended = len(ends)
        self._ends = ends

    def results(self) -> dict[str, str]:
        rows = [_row(*end) for end in self._ends]
        return {name: ",".join(_cell(row.get(name)) for row in rows) for name in RESULT_COLUMNS} if rows else {}


def _row(started_at: float, ended_at: float, end: End) -> dict[str, Any]:
    row: dict[str, Any] = {one.name: getattr(end, one.name) for one in fields(end) if one.name != "failure"}
    row |= {"started_at": started_at, "ended_at": ended_at, "attempts": 1, "retries": 0, "keeps_upload": False}
    if end.failure is not None:
        row["error_class"] = end.failure.error_class
        row["error_code"] = end.failure.error_code or end.failure.code
        row["error_operation"] = end.failure.operation
        row["error_message"] = end.failure.message
    return row


def _cell(value: Any) -> str:
    """A value as databases read it: of texts only quotes and backslashes are escaped, and there is no NUL."""
    if isinstance(value, str):
        escaped = value.replace("\0", "").replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else repr(value)


@dataclass(frozen=True, slots=True)
class _Failure:
    error_class: str
    error_code: str
    operation: str
    message: str


class WorkObject(Protocol):
    """An object that a job works on."""

    @property
    def id(self) -> int: ...


Item = TypeVar("Item", bound=WorkObject)

Ended = Generator[Sequence[End]]
"""Pages of the ends of objects as they come; empty ones while waiting. It is closed to stop the work."""


class PagedJob(Generic[Item]):
    """See ``executor.Job``. ``act`` gets a chunk and the epoch of the lease, and tells how objects end, in pages.

    An object that is in a page has ended, though others of its chunk have not.
    """

    def __init__(
        self,
        items: Sequence[Item],
        act: Callable[[Sequence[Item], int | None], Ended],
        *,
        chunk: int,
        epoch: int | None,
        only_clean: bool = False,
    ) -> None:
        self._items = items
        self._act = act
        self._chunk = chunk
        self._epoch = epoch
        self._only_clean = only_clean
        self._changed = threading.Condition()
        self._ended: list[tuple[float, float, End]] = []
        self._cancelled: list[int] = []
        self._tells_cancelled = False
        self._stopped = False
        self._over = False
        self._failure: _Failure | None = None
        self._counts: dict[str, int] = {"done": 0, "failed": 0, "skipped": 0, "bytes": 0, "calls": 0}
        threading.Thread(target=self._run, name="seqferry-chunks", daemon=True).start()

    def _run(self) -> None:
        left = {one.id: one for one in self._items}
        try:
            while left and not self._only_clean:
                with self._changed:
                    if self._stopped:
                        break
                    epoch = self._epoch
                self._work(list(islice(left.values(), self._chunk)), epoch, left)
        except SeqferryError as why:
            self._fail(why)
        except Exception as why:  # noqa: BLE001 - reported in the thread that waits
            self._fail(StorageError(f"unexpected {type(why).__name__}: {why}", "object", "Unexpected"))
        with self._changed:
            if self._only_clean or self._tells_cancelled:
                self._cancelled += left
            self._over = True
            self._changed.notify_all()

    def _work(self, chunk: Sequence[Item], epoch: int | None, left: dict[int, Item]) -> None:
        """Act on a chunk, and take out of ``left`` what has ended."""
        started_at = time.time()
        with closing(self._act(chunk, epoch)) as pages:
            for ends in pages:
                for end in ends:
                    left.pop(end.id)
                if ends:
                    self._tell(started_at, ends)
                if self._stopped:
                    return
        if any(one.id in left for one in chunk):
            raise StorageError("Some objects have no result, and are tried again.")

    def _tell(self, started_at: float, ends: Sequence[End]) -> None:
        ended_at = time.time()
        told = [end for end in ends if end.failure is None or end.failure.error_code != LEASE_LAPSED]
        fatal = next((end.failure for end in told if end.failure is not None and end.failure.job_wide), None)
        with self._changed:
            self._ended += [(started_at, ended_at, end) for end in told]
            self._counts["calls"] += 1
            for end in told:
                self._counts[end.state] = self._counts.get(end.state, 0) + 1
                self._counts["bytes"] += end.size
            self._changed.notify_all()
        if fatal is not None:
            raise fatal
        if len(told) < len(ends):
            raise StorageError(_LAPSED)

    def _fail(self, why: SeqferryError) -> None:
        if isinstance(why, StorageError) and why.job_wide:
            with self._changed:
                self._failure = _Failure(why.error_class, why.error_code or why.code, why.operation, why.message)

    def wait(self, timeout: float, /) -> Ends:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._over, timeout)
            ends, self._ended = self._ended, []
            cancelled, self._cancelled = self._cancelled, []
        return Ends(ends, cancelled)

    def finished(self) -> bool:
        with self._changed:
            return self._over and not self._ended and not self._cancelled

    def failure(self) -> _Failure | None:
        return self._failure

    def notes(self) -> Sequence[str]:
        return ()

    def progress(self) -> Counts:
        with self._changed:
            counts = self._counts
            return Counts(
                bytes_done=counts["bytes"],
                objects_done=counts["done"],
                objects_failed=counts["failed"],
                objects_skipped=counts["skipped"],
                requests=counts["calls"],
            )

    def acknowledge(self, ids: list[int], /) -> None:
        """No uploads are begun."""

    def admit(self, epoch: int, /) -> None:
        with self._changed:
            self._epoch = epoch

    def disown(self) -> None:
        with self._changed:
            self._stopped = True

    def cancel(self, abort_uploads: bool, /) -> None:
        with self._changed:
            self._stopped = True
            self._tells_cancelled = abort_uploads
