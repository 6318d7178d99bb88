"""An operation as one would be added: it compares the sizes of objects at both places, and writes nothing.

Its jobs are its own, in Python: nothing of the engine's jobs is needed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

from seqferry.db.objects import OpenObject, PlannedObject
from seqferry.engine.engine import Engine
from seqferry.engine.executor import Failure, Job, ObjectProgress, UploadRecord
from seqferry.model.models import RESULT_COLUMNS, ResolvedSpec, TransferSpec
from seqferry.planning.listing import KnownObjects
from seqferry.preflight import start
from seqferry.workflows.operations import BatchWork, OperationWork
from seqferry.workflows.runtime import Runtime


class Ends:
    """See ``seqferry.engine.executor.Events``."""

    uploads: Sequence[UploadRecord] = ()
    cancelled: Sequence[int] = ()

    def __init__(self, ends: list[dict[str, object]]) -> None:
        self.ended = len(ends)
        self._ends = ends

    def results(self) -> dict[str, str]:
        return {name: ",".join(json.dumps(end.get(name)) for end in self._ends) for name in RESULT_COLUMNS}


class Counts:
    """See ``seqferry.engine.executor.Progress``."""

    bytes_done = objects_done = objects_failed = objects_skipped = 0
    requests = in_flight = retries = throttled = 0
    slowest: Sequence[ObjectProgress] = ()


class Comparison:
    """See ``seqferry.engine.executor.Job``."""

    def __init__(self, engine: Engine, spec: TransferSpec, items: Sequence[OpenObject], *, fails: bool) -> None:
        self._engine, self._spec = engine, spec
        self._left = list(items)
        self._fails = fails

    def wait(self, timeout: float, /) -> Ends:
        items, self._left = self._left, []
        found = self._engine.head(self._spec.target, [one.target_key for one in items])
        return Ends(
            [self._end(one, None if info is None else info.size) for one, info in zip(items, found, strict=True)]
        )

    def _end(self, one: OpenObject, size: int | None) -> dict[str, object]:
        now = time.time()
        end: dict[str, object] = {"id": one.id, "size": one.size, "etag": one.etag, "attempts": 1, "retries": 0}
        end |= {"started_at": now, "ended_at": now, "method": "none", "keeps_upload": False}
        if size == one.size:
            return {**end, "state": "skipped", "verified": "size"}
        message = f"{one.target_key} has {size} bytes, and {one.size} were expected"
        state = "failed" if self._fails else "done"
        failure = {"error_class": "mismatch", "error_code": "SizeDiffers", "error_operation": "compare"}
        return {**end, "state": state, "verified": "none"} | (
            {**failure, "error_message": message} if self._fails else {}
        )

    def finished(self) -> bool:
        return not self._left

    def failure(self) -> Failure | None:
        return None

    def notes(self) -> Sequence[str]:
        return ()

    def progress(self) -> Counts:
        return Counts()

    def acknowledge(self, ids: list[int], /) -> None: ...
    def admit(self, epoch: int, /) -> None: ...
    def disown(self) -> None: ...

    def cancel(self, abort_uploads: bool, /) -> None:
        self._left = []


class CompareOperation(OperationWork):
    """See ``seqferry.workflows.operations.OperationWork``."""

    options = frozenset({"lenient"})

    def __init__(self) -> None:
        self.finished: list[str] = []

    def prepare(self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None) -> None:
        start.check_buckets(runtime.engine, spec)

    def find(
        self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        for page in runtime.engine.list(spec.source):
            yield [
                PlannedObject(
                    source_key=info.key,
                    target_key=spec.target.key + info.key.removeprefix(spec.strip),
                    size=info.size,
                    etag=info.etag,
                    last_modified=info.last_modified,
                    version_id=None,
                    storage_class=None,
                )
                for info in page
            ]

    def start(self, runtime: Runtime, spec: TransferSpec, work: BatchWork) -> Job:
        items = [] if work.only_clean else work.items
        return Comparison(runtime.engine, spec, items, fails=not spec.options.get("lenient"))

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        self.finished.append(transfer_id)


OPERATION = CompareOperation()
