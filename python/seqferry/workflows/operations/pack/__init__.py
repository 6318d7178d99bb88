"""The operation ``pack``: what lies below a prefix or a folder becomes one tar, or shards of a set size.

A batch is an archive: its objects are the members, and its first one carries the upload. All batches are added in
one transaction, so that a repeated planning never makes an archive of later objects.

What must stay true: a run of a batch gets all of its members, also those whose end is on record already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seqferry.db import objects
from seqferry.db.objects import PlannedObject
from seqferry.engine.engine import Job
from seqferry.model.errors import StorageError
from seqferry.model.models import ResolvedSpec
from seqferry.planning import members
from seqferry.planning.listing import KnownObjects
from seqferry.spec import pack
from seqferry.workflows.operations import BatchWork, OperationWork, places
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.runtime import Runtime


class Pack(OperationWork):
    """See ``seqferry.workflows.operations.OperationWork``."""

    options = pack.OPTIONS
    pages_are_batches = True

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        places.prepare(runtime, spec, known)

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        del known
        found = runtime.engine.head(spec.target, [pack.shard_key(spec, 0)])
        return found == [None]

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent
        found: list[PlannedObject] = []
        left_out: list[PlannedObject] = []
        for page in members.members(runtime.engine, spec, runtime.key_rules(transfer_id)):
            for info, why in page:
                planned = PlannedObject(
                    source_key=info.key,
                    target_key=spec.target.key,
                    size=info.size,
                    etag=info.etag,
                    last_modified=info.last_modified,
                    version_id=info.version_id,
                    storage_class=info.storage_class,
                    refusal=why,
                    left_out=why is not None,
                )
                (found if why is None else left_out).append(planned)
            yield []
        found.sort(key=lambda one: members.order(one.source_key))
        archives = list(_archives(spec, found, left_out))
        if pack.SPLIT in spec.options:
            members.refuse_later_shards(runtime.engine, spec, len(archives))
        yield from archives

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        items = work.items
        if not work.only_clean and items:
            with runtime.database.read() as connection:
                batch = objects.whole_batch(connection, work.transfer_id, items[0].id)
            if batch.failed is not None:
                raise StorageError(batch.failed, "object", "ArchiveNotMade", "pack")
            items = batch.objects
        return runtime.engine.pack(
            spec,
            [copy_item(one) for one in items],
            work.context,
            index=pack.NO_INDEX not in spec.options,
        )


OPERATION: Final[OperationWork] = Pack()


def _archives(
    spec: ResolvedSpec, found: list[PlannedObject], left_out: list[PlannedObject]
) -> Iterator[list[PlannedObject]]:
    """The members of each archive."""
    if pack.SPLIT not in spec.options:
        if found or left_out:
            yield found + left_out
        return
    ends = members.shard_ends(spec, [one.source_key for one in found], [one.size for one in found])
    start = 0
    for number, end in enumerate(ends):
        for member in found[start:end]:
            member.target_key = pack.shard_key(spec, number)
        # What is left out belongs to no shard; the first one tells of it.
        yield found[start:end] + (left_out if number == 0 else [])
        start = end
