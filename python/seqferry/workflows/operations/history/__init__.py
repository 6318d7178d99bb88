"""The operation ``history``: copies all versions of objects, those of one object in their order.

What must stay true: a version begins when the one before it has ended well (``CopyPolicy.in_order``), also after a
kill, so that the target has the same history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from seqferry.db import objects
from seqferry.db.objects import OpenObject, PlannedObject
from seqferry.engine.engine import FoundCopy
from seqferry.engine.executor import Job
from seqferry.model.models import ResolvedSpec
from seqferry.planning import decision, versions
from seqferry.planning.listing import KnownObjects
from seqferry.planning.versions import VersionDecision
from seqferry.workflows.operations import BatchWork, OperationWork, places
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.runtime import Runtime

_BATCH: Final = 1000


class History(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    pages_are_batches = True

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        places.prepare(runtime, spec, known)

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent
        batch: list[PlannedObject] = []
        for page in versions.decide_histories(runtime.engine, spec, runtime.key_rules(transfer_id)):
            for group in page:
                if batch and len(batch) + len(group) > _BATCH:
                    yield batch
                    batch = []
                batch += [_plan_object(one) for one in group]
            yield []
        if batch:
            yield batch

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        # Whether a version is there already is decided by the history as a whole.
        spec = spec.derive(selection=replace(spec.selection, if_exists="overwrite"))
        written = _find_written(runtime, spec, work) if work.resumed and not work.only_clean else {}
        items = [copy_item(one, written=written.get(one.id)) for one in work.items]
        return runtime.engine.start(spec, items, work.context)


OPERATION: Final[OperationWork] = History()


def _plan_object(fate: VersionDecision) -> PlannedObject:
    version, decided = fate.version, fate.decision
    return PlannedObject(
        source_key=version.key,
        target_key=decided.target_key,
        size=version.size,
        etag=version.etag,
        last_modified=version.last_modified,
        version_id=version.version_id,
        storage_class=version.storage_class,
        refusal=decided.refusal,
        left_out=decided.is_left_out,
        verified=decided.verified,
        target_etag=decided.target_etag,
    )


def _find_written(runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> dict[int, FoundCopy]:
    """The versions that an earlier run has written without a record of it, by id."""
    if not work.items:
        return {}
    with runtime.database.read() as connection:
        rows = objects.whole_batch(connection, work.transfer_id, work.items[0].id).objects
    of_key: dict[str, list[OpenObject]] = defaultdict(list)
    for one in rows:
        of_key[one.target_key].append(one)
    left = {one.id for one in work.items}
    found: dict[int, FoundCopy] = {}
    for key in {one.target_key for one in work.items}:
        # They stand at the same places of both histories.
        for item, there in zip(of_key[key], versions.list_target_versions(runtime.engine, spec, key), strict=False):
            verified = decision.verification_of_version((item.size, item.etag), (there.size, there.etag))
            if verified is None:
                break
            if item.id in left:
                found[item.id] = FoundCopy(etag=there.etag, version_id=there.version_id, verified=verified)
    return found
