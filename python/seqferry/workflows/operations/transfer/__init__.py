"""The operation ``transfer``: copies objects, and removes at the target what the source has not.

What must stay true: an object counts as done only when the engine has verified it, and nothing is removed before all
of the source has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any, Final

from seqferry.db import earlier_objects
from seqferry.db.earlier_objects import EarlierObject, EarlierTransfer
from seqferry.db.objects import PlannedObject
from seqferry.engine.engine import Job, Listed
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.models import ResolvedSpec
from seqferry.planning import collisions, listing, unchanged
from seqferry.planning.decision import Decision, KeyRules
from seqferry.planning.listing import KnownObjects, Recall
from seqferry.workflows.operations import BatchWork, OperationWork, places
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.operations.transfer import removal
from seqferry.workflows.runtime import Runtime


class Transfer(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    divides_batches = True

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        places.prepare(runtime, spec, known)

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        return places.target_is_empty(runtime, spec, known)

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        compare = not target_absent
        recalls = _open_records(runtime, transfer_id) if compare and unchanged.may_decide(spec) else []
        pages = _find(runtime, spec, known, runtime.key_rules(transfer_id), compare=compare, recalls=recalls)
        if not collisions.are_possible(spec):
            return pages
        return drop_duplicates(collisions.Spool(spec, _names, astuple, restore_planned), pages)

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        return runtime.engine.start(
            spec,
            [copy_item(one, target_absent=work.target_absent) for one in work.items],
            work.context,
        )

    def has_end(self, spec: ResolvedSpec) -> bool:
        return spec.removal.delete

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        if spec.removal.delete:
            removal.remove_extras(runtime, transfer_id, claimed=claimed)


OPERATION: Final[OperationWork] = Transfer()


def _open_records(runtime: Runtime, transfer_id: str) -> list[Recall]:
    """The records of the transfers before that were requested as this one, the latest first."""
    with runtime.database.read() as connection:
        found = earlier_objects.find_transfers(connection, transfer_id)

    def recall(earlier: EarlierTransfer, keys: Sequence[str]) -> Mapping[str, EarlierObject]:
        with runtime.database.read() as connection:
            return earlier_objects.read_objects(connection, earlier, keys)

    return [partial(recall, one) for one in found]


def _find(
    runtime: Runtime,
    spec: ResolvedSpec,
    known: KnownObjects | None,
    rules: KeyRules,
    *,
    compare: bool,
    recalls: Sequence[Recall],
) -> Iterator[list[PlannedObject]]:
    for page in listing.decide_listed(runtime.engine, spec, rules, compare=compare, known=known, recalls=recalls):
        yield [plan_object(info, decision) for info, decision in page]


def drop_duplicates(
    spool: collisions.Spool[PlannedObject], pages: Iterator[list[PlannedObject]]
) -> Iterator[list[PlannedObject]]:
    """The same pages, after all of them were seen.

    Raises:
        StorageError: two objects have one target.
    """
    try:
        yield from spool.unique(_refusing(pages))
    except UsageError as why:
        raise StorageError(why.message, "person", "TargetCollision", "plan", True) from None


def _refusing(pages: Iterator[list[PlannedObject]]) -> Iterator[list[PlannedObject]]:
    """The same pages; patterns that cannot be used are no collision."""
    try:
        yield from pages
    except UsageError as why:
        raise StorageError(why.message, "person", why.code, "plan", True) from None


def _names(planned: PlannedObject) -> tuple[str, str, str | None]:
    return planned.source_key, planned.version_id or "", None if planned.refusal else planned.target_key


def restore_planned(values: Sequence[Any]) -> PlannedObject:
    """A planned object from the values of its fields."""
    found = PlannedObject(*values)
    if found.refusal is not None:
        code, message = found.refusal
        found.refusal = code, message
    return found


def plan_object(info: Listed, decision: Decision) -> PlannedObject:
    if decision.action == "copy":  # nearly all of them: fields that say more have their defaults
        return PlannedObject(
            info.key,
            decision.target_key,
            info.size,
            info.etag,
            info.last_modified,
            info.version_id,
            info.storage_class,
            file_changed=decision.file_changed,
        )
    return PlannedObject(
        source_key=info.key,
        target_key=decision.target_key,
        size=info.size,
        etag=info.etag,
        last_modified=info.last_modified,
        version_id=info.version_id,
        storage_class=info.storage_class,
        refusal=decision.refusal,
        left_out=decision.is_left_out,
        verified=decision.verified,
        target_etag=decision.target_etag,
        error_class=decision.error_class,
        operation=decision.operation,
        file_changed=decision.file_changed,
    )
