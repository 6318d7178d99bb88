"""A transfer without the queue and without a record: listed, planned, copied and verified in the process of the shim.

The caller repeats it after a failure, so nothing is kept for a later run: uploads that do not complete are aborted,
and no incomplete target is left. Memory is bounded: a few batches are under way, and only the messages of the first
failures are kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from seqferry.engine.engine import CopyItem, Engine, FailedLookup, JobContext, Listed
from seqferry.engine.executor import Events, Job, JobPlan, JobSequence, abort, execute, record_nothing, rows
from seqferry.engine.native_calls import storage_error
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder
from seqferry.model.models import AT_REST, ResolvedSpec
from seqferry.places import paths
from seqferry.planning import listing
from seqferry.planning.batching import Batcher
from seqferry.planning.decision import Decision, decide

log: Final = logging.getLogger("seqferry.nextflow")

_JOBS: Final = 4
"""Concurrent batches: enough for the engine to be busy while some begin and end."""

_WAIT_SECONDS: Final = 0.5

_ABORT_SECONDS: Final = 30.0
"""Longest time for aborting uploads when the process is to stop; a scheduler kills it soon after."""

_KEPT_FAILURES: Final = 100


@frozen
class FailedObject:
    """One object that did not arrive."""

    source: str
    target: str
    code: str
    operation: str
    message: str
    error_class: str = ""


@dataclass(slots=True)
class TransferResult:
    """Result of a transfer: counts of its objects, and failures in detail.

    Attributes:
        found: objects that the source held, those that were refused included.
        failures: the first of them; ``failed`` counts all.
        left_out: messages of the first files that are never copied (devices, sockets).
    """

    found: int = 0
    done: int = 0
    bytes_done: int = 0
    failed: int = 0
    missing: list[str] = field(default_factory=list[str])
    failures: list[FailedObject] = field(default_factory=list[FailedObject])
    left_out: list[str] = field(default_factory=list[str])


class ListingEntry(NamedTuple):
    """One object as a listing showed it. Its read is pinned: one that has changed is looked up and read anew."""

    key: str
    size: int
    etag: str
    version_id: str | None = None
    refusal: tuple[str, str] | None = None
    last_modified: float = 0.0


class _PlannedEntry(NamedTuple):
    """An object that is copied, and its target key."""

    info: Listed | ListingEntry
    target_key: str

    @property
    def size(self) -> int:
        return self.info.size


class UnrecordedTransfer(JobPlan):
    """One transfer. ``run`` once; ``progress`` and ``stop`` may be called from other threads."""

    def __init__(
        self,
        engine: Engine,
        spec: ResolvedSpec,
        arrived: Callable[[str, str], None] | None = None,
        *,
        known: ListingEntry | None = None,
        flow: str = "",
    ) -> None:
        """``arrived`` is called with source and target of each object that is there and verified.

        Args:
            known: the one object of ``spec``, which is then not looked up.
        """
        self._known = known
        self._engine = engine
        # Files of a task that has ended are at rest: the command does not wait to look at them again.
        self._spec = spec.derive(selection=replace(spec.selection, settle=AT_REST))
        self._arrived = arrived
        self._flow = flow
        self._batches = self._find()
        self._has_more = True
        self._begun: dict[int, _PlannedEntry] = {}
        self._next = 0
        self._stopping = False
        self.result = TransferResult()

    def stop(self) -> None:
        """End soon, with open uploads aborted; ``run`` returns then."""
        self._stopping = True

    def run(self) -> TransferResult:
        """Carry it out.

        Raises:
            StorageError: the transfer could not begin, or a failure that holds for all objects stopped it.
        """
        jobs = JobSequence(self, max_running=_JOBS)

        def is_over() -> bool:
            return self._stopping or jobs.failure() is not None

        try:
            execute(jobs, lambda: _WAIT_SECONDS, self._record, until=is_over)
        finally:
            abort(jobs, seconds=_ABORT_SECONDS)
            for note in jobs.notes():
                log.warning("%s", note)
        if (failure := jobs.failure()) is not None and not self._stopping:
            raise storage_error(failure)
        # Objects fail in the order of answers; what is said of them must not depend on it.
        self.result.failures.sort(key=lambda failed: failed.source)
        return self.result

    def next(self, epoch: int | None, /) -> Job | None:
        """The job of the next batch; a page of the listing is read for each call, and jobs go on between them."""
        del epoch
        batch = None if self._stopping else next(self._batches, None)
        self._has_more = batch is not None
        return self._begin(batch) if batch else None

    def has_more(self) -> bool:
        return self._has_more and not self._stopping

    def _find(self) -> Iterator[list[_PlannedEntry]]:
        """Batches of what is copied; empty ones while it is listed."""
        batcher = Batcher[_PlannedEntry]()
        for page in self._pages():
            self.result.found += len(page)
            wanted = (
                _PlannedEntry(info, decision.target_key) for info, decision in page if self._goes_on(info, decision)
            )
            yield from batcher.add(list(wanted))
            yield []
        yield from batcher.rest()

    def _pages(self) -> Iterator[Sequence[tuple[Listed | ListingEntry, Decision]]]:
        if self._known is None:
            for page in listing.decide_listed(self._engine, self._spec):
                failed = [info for info, _ in page if isinstance(info, FailedLookup)]
                if failed and self._spec.single and not failed[0].is_absent:
                    raise failed[0].failure
                absent = {info.key for info in failed if info.is_absent}
                self.result.missing += absent
                yield [one for one in page if one[0].key not in absent] if absent else page
        else:
            yield [(self._known, decide(self._spec, self._known))]

    def _goes_on(self, info: Listed | ListingEntry, decision: Decision) -> bool:
        if decision.action == "leave_out" and len(self.result.left_out) < _KEPT_FAILURES:
            self.result.left_out.append(decision.reason or "")
        if decision.action == "refuse":
            operation = "" if decision.operation == "plan" else decision.operation
            self._fail(info.key, decision.target_key, decision.code, operation, decision.reason)
        return decision.action == "copy"

    def _begin(self, batch: list[_PlannedEntry]) -> Job:
        target = self._spec.target
        if isinstance(target, LocalFolder) and not self._next:
            paths.make_target(target.path)
        items: list[CopyItem] = []
        for planned in batch:
            self._begun[self._next] = planned
            info = planned.info
            items.append(
                CopyItem(
                    id=self._next,
                    source_key=info.key,
                    target_key=planned.target_key,
                    size=info.size,
                    etag=info.etag,
                    version_id=info.version_id,
                )
            )
            self._next += 1
        # An earlier process of the same task may have been killed; what it left open is not known here.
        return self._engine.start(self._spec, items, JobContext(self._flow, time.time()))

    def _record(self, events: Events) -> Sequence[int]:
        for number in events.cancelled:
            self._begun.pop(number, None)
        for row in rows(events):
            planned = self._begun.pop(row["id"])
            if row["state"] == "failed":
                why = row["error_code"], row["error_operation"], row["error_message"], row["error_class"]
                self._fail(planned.info.key, planned.target_key, *why)
                continue
            if row["state"] == "skipped":
                continue
            self.result.done += 1
            self.result.bytes_done += row["size"]
            if self._arrived is not None:
                self._arrived(*self._places(planned.info.key, planned.target_key))
        # Nothing goes on with an upload after this process: there is nothing to record first.
        return record_nothing(events)

    def _fail(
        self,
        key: str,
        target_key: str,
        code: str | None,
        operation: str | None,
        message: str | None,
        error_class: str | None = None,
    ) -> None:
        self.result.failed += 1
        if len(self.result.failures) < _KEPT_FAILURES:
            source, target = self._places(key, target_key)
            self.result.failures.append(
                FailedObject(source, target, code or "", operation or "", message or "", error_class or "")
            )

    def _places(self, key: str, target_key: str) -> tuple[str, str]:
        return self._spec.source.at(key), self._spec.target.at(target_key)
