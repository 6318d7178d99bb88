"""The operation ``verify``: the objects of another transfer are checked again at its target.

An object that is as received ends as done. All others fail: the object is missing, has changed, or cannot be read. The
columns of each row hold the expected content, so that the receipt shows it.

What must stay true: no request of the operation writes, and the verified transfer gets one event of the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from seqferry.db import objects, transfers
from seqferry.db.objects import ExpectedContent, OpenObject, PlannedObject
from seqferry.db.record import events
from seqferry.engine.engine import RecordedObjects
from seqferry.engine.executor import Job, JobSequence
from seqferry.model import names
from seqferry.model.errors import StorageError
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.planning.listing import KnownObjects
from seqferry.proof import target_verification
from seqferry.spec import stored, verification
from seqferry.spec.verification import RecordedTarget, RecordedTargets
from seqferry.workflows.operations import BatchWork, OperationWork
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused

_PAGE: Final = 1000

VERIFIED: Final = "verified"
"""Event of the verified transfer."""


class Verify(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = verification.OPTIONS
    divides_batches = True

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, transfer_id, target_absent
        verified = str(spec.options[verification.VERIFIED_TRANSFER])
        with runtime.database.read() as connection:
            row = transfers.row_of(connection, verified)
        if row is None:
            raise StorageError(f"There is no transfer {verified} on record.", "object", "NoSuchTransfer", "plan", True)
        recorded = stored.read(row.spec)
        selects = verification.build_selection(spec, recorded)
        rows = (
            one
            for one in target_verification.read_arrived(runtime.database, verified, recorded)
            if selects is None or selects(one["target_key"], one["size"], one["last_modified"] / 1_000_000)
        )
        while page := list(islice(rows, _PAGE)):
            yield [_plan_object(one, is_archive=recorded.kind.packs) for one in page]

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        is_content = bool(spec.options.get(verification.CONTENT))
        places = RecordedTargets(spec)
        places.require()
        with runtime.database.read() as connection:
            expected = objects.read_expected(connection, work.transfer_id, [one.id for one in work.items])

        jobs = [
            runtime.engine.start_verify(
                at.place,
                _recorded_object(items, expected),
                work.context,
                content=is_content,
                archives=at.holds_archives,
            )
            for at, items in _by_place(places, work.items)
        ]
        return JobSequence.of(jobs)

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        """Put the result on the record of the verified transfer, once."""
        with runtime.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
        if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row) or row.planned_at is None:
            return
        verified = str(spec.options[verification.VERIFIED_TRANSFER])
        data = _facts(transfer_id, spec, target_verification.read_counts(runtime.database, transfer_id))
        with runtime.database.write() as connection:
            if claimed:
                runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
            raise_if_paused(transfers.row_of(connection, transfer_id))
            transfers.row_of(connection, verified, lock=True)
            noted = events.read(connection, verified, 0, kind=VERIFIED)
            if not any(one.data.get("verification") == transfer_id for one in noted):
                events.append(connection, verified, time.time(), VERIFIED, row.created_by, data)


OPERATION: Final[OperationWork] = Verify()


def _plan_object(row: target_verification.Row, *, is_archive: bool) -> PlannedObject:
    return PlannedObject(
        source_key=row["source_key"],
        target_key=row["target_key"],
        size=0 if is_archive else row["size"],
        etag=row["etag"],
        last_modified=row["last_modified"] / 1_000_000,
        version_id=row["version_id"] or None,
        member_place=row["member_place"],
        storage_class=row["storage_class"],
        expected=ExpectedContent(**{name: row[name] for name in ExpectedContent._fields}),
    )


def _by_place(
    places: RecordedTargets, items: Sequence[OpenObject]
) -> Iterator[tuple[RecordedTarget, list[OpenObject]]]:
    """Objects by the place where they are: one place, but for a run."""
    found: dict[RecordedTarget, list[OpenObject]] = {}
    for one in items:
        found.setdefault(places.find_target(one.source_key), []).append(one)
    yield from found.items()


def _recorded_object(items: Sequence[OpenObject], expected: Mapping[int, ExpectedContent]) -> RecordedObjects:
    contents = [expected[one.id] for one in items]
    return RecordedObjects(
        ids=[one.id for one in items],
        keys=[one.target_key for one in items],
        sizes=[one.size for one in items],
        etags=[one.etag for one in items],
        target_etags=[one.target_etag for one in contents],
        part_sizes=[one.part_size for one in contents],
        checksum_algorithms=[one.checksum_algorithm for one in contents],
        checksums=[one.checksum for one in contents],
    )


def _facts(transfer_id: str, spec: ResolvedSpec, counts: target_verification.VerificationCounts) -> dict[str, Any]:
    is_content = bool(spec.options.get(verification.CONTENT))
    facts: dict[str, Any] = {
        "verification": transfer_id,
        "objects": counts.objects,
        "same": counts.same,
        "missing": counts.missing,
        "changed": counts.changed,
        "how": "content" if is_content else "head",
    }
    if selected := verification.selected_by(spec):
        facts["selected"] = selected
    if is_content or counts.unreadable:
        facts["unreadable"] = counts.unreadable
    return facts | ({"content": counts.content} if is_content else {})
