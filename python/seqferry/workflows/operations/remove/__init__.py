"""The operation ``remove``: objects, or versions of them, are removed, each with a row of its own.

What must stay true: a row is on record before its object is removed; an object that was written after it was listed
stays, also when a removal is resumed days later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seqferry.db import batches
from seqferry.db.objects import PlannedObject
from seqferry.engine.engine import FailedLookup
from seqferry.engine.executor import Job
from seqferry.model.models import ResolvedSpec
from seqferry.planning import removals
from seqferry.planning.listing import KnownObjects
from seqferry.planning.removals import RemovalCandidate
from seqferry.preflight import start
from seqferry.workflows.operations import BatchWork, OperationWork
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.removal_limit import limit_to_expected
from seqferry.workflows.runtime import Runtime


class Remove(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = removals.OPTIONS

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        if known is None:
            start.check_buckets(runtime.engine, spec)

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent
        pages = self._pages(runtime, spec, transfer_id)
        # The number of named objects does not grow, and one that is not there has a row as well.
        expected = None if spec.keys is not None or spec.single else spec.options.get(removals.EXPECTED)
        return limit_to_expected(runtime, transfer_id, pages, expected=expected, noun="object")

    def _pages(self, runtime: Runtime, spec: ResolvedSpec, transfer_id: str) -> Iterator[list[PlannedObject]]:
        removals.check_most(runtime.engine, spec)
        failed: list[FailedLookup] = []
        with runtime.database.read() as connection:
            is_begun = batches.has_batches(connection, transfer_id)
        # Objects that an earlier run removed are not counted again: it has checked the requested number.
        found = removals.find_removable if is_begun else removals.find_counted
        for page in found(runtime.engine, spec, failed):
            yield [_plan_object(one) for one in page]
            yield [_plan_absent(one) for one in failed]
            failed.clear()

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        return runtime.engine.start_remove(spec.source, [copy_item(one) for one in work.items], work.context)


OPERATION: Final[OperationWork] = Remove()


def _plan_object(one: RemovalCandidate) -> PlannedObject:
    return PlannedObject(
        source_key=one.key,
        target_key=one.key,
        size=one.size,
        etag=one.etag,
        last_modified=one.last_modified,
        version_id=one.version_id,
        storage_class=one.storage_class,
    )


def _plan_absent(found: FailedLookup) -> PlannedObject:
    planned = _plan_object(RemovalCandidate(found.key, 0, "", 0.0, None, None))
    if not found.is_absent:  # as S3 has it: what is not there counts as removed
        planned.refusal = found.refusal
        planned.error_class, planned.operation = found.failure.error_class, found.failure.operation
    return planned
