"""The operation ``cleanup``: uploads that were never completed are aborted, each with a row of its own.

A row has the key and the id of the upload, when it began, and the bytes of its parts. After a kill, a missing
upload counts as aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seqferry.db import batches, objects
from seqferry.db.objects import PlannedObject
from seqferry.engine.executor import Job
from seqferry.model.models import ResolvedSpec
from seqferry.planning import cleanup, decision
from seqferry.planning.cleanup import StaleUpload
from seqferry.planning.listing import KnownObjects
from seqferry.preflight import start
from seqferry.workflows.operations import BatchWork, OperationWork
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.removal_limit import limit_to_expected
from seqferry.workflows.runtime import Runtime


class Cleanup(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = cleanup.OPTIONS

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        if known is None:
            start.check_buckets(runtime.engine, spec)

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent

        def in_use(ids: Sequence[str]) -> set[str]:
            with runtime.database.read() as connection:
                return objects.uploads_in_use(connection, ids)

        with runtime.database.read() as connection:
            is_begun = batches.has_batches(connection, transfer_id)
        pages = cleanup.find_stale(runtime.engine, spec, in_use)
        # Uploads that an earlier run aborted are not counted again: it has checked the requested number.
        found = pages if is_begun else cleanup.check_count(pages, spec)
        planned = ([_plan_object(one) for one in page] for page in found)
        return limit_to_expected(
            runtime, transfer_id, planned, expected=spec.options.get(cleanup.EXPECTED), noun="upload"
        )

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        # The engine takes the id of the upload as the version of its source.
        items = [copy_item(one._replace(version_id=one.source_upload_id)) for one in work.items]
        return runtime.engine.start_abort(spec.source, items, work.context)


OPERATION: Final[OperationWork] = Cleanup()


def _plan_object(one: StaleUpload) -> PlannedObject:
    return PlannedObject(
        source_key=one.key,
        target_key=one.key,
        size=one.bytes,
        etag="",
        last_modified=one.initiated,
        version_id=None,
        source_upload_id=one.upload_id,
        storage_class=None,
        refusal=None if one.kept is None else decision.upload_in_use(one.key).refusal,
        left_out=one.kept is not None,
    )
