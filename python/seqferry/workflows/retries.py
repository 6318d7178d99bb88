"""The objects of a transfer that retries another: those that the other has not brought to its target.

They are taken from the rows of the other as they were listed then, without a request. A source that has changed since
is noticed when it is read, as within a transfer. What planning had refused is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from seqferry import planning
from seqferry.db import objects, transfers
from seqferry.db.objects import PlannedObject
from seqferry.errors import StorageError
from seqferry.models import COPIES, OPERATION_TRANSFER, OPERATION_UNPACK, TransferSpec
from seqferry.planning import KeyRules
from seqferry.workflows.operations import operation_of, transfer
from seqferry.workflows.runtime import Runtime

_PAGE: Final = 1000


def takes_rows(spec: TransferSpec) -> bool:
    """True when the objects come from the rows of another transfer. An archive that is packed is made as a whole."""
    return spec.retry_of is not None and not operation_of(spec).pages_are_batches


def find(runtime: Runtime, spec: TransferSpec, transfer_id: str) -> Iterator[list[PlannedObject]]:
    """Pages of the objects, in bounded memory.

    Raises:
        StorageError: the other transfer is not on record any more.
    """
    assert spec.retry_of is not None
    with runtime.database.read() as connection:
        other = transfers.row_of(connection, spec.retry_of)
    if other is None or other.pruned_at is not None:
        why = f"The transfer {spec.retry_of} whose objects are retried is not on record any more."
        raise StorageError(f"{why} Run its cp or sync again.", "object", "NoSuchTransfer", "plan", True)
    rules = runtime.key_rules(transfer_id)
    after: int | None = 0
    while after is not None:
        with runtime.database.read() as connection:
            page, after = objects.unfinished_of(
                connection, spec.retry_of, after, _PAGE, also_cancelled=other.state != "done"
            )
        yield _allowed(spec, _looked_at_again(runtime, spec, page, rules), rules)


def _looked_at_again(
    runtime: Runtime, spec: TransferSpec, page: list[PlannedObject], rules: KeyRules
) -> list[PlannedObject]:
    """The page, in which what planning had refused is decided anew, where it can be looked at."""
    refused = {one.source_key: one for one in page if one.refusal is not None}
    if not refused or spec.operation != OPERATION_TRANSFER or spec.versions:
        return page
    try:
        found = runtime.engine.head(spec.source, list(refused))
    except (StorageError, UnicodeError):
        return page
    for info in found:
        if info is not None and info.key in refused:
            again = transfer.planned(info, planning.decide(spec, info, rules))
            refused[info.key] = replace(again, target_key=refused[info.key].target_key)
    return [refused.get(one.source_key, one) for one in page]


def _allowed(spec: TransferSpec, page: list[PlannedObject], rules: KeyRules) -> list[PlannedObject]:
    """The page, in which names are decided anew: the other transfer may have been that of a client with other rules."""
    if spec.operation in COPIES or spec.operation == OPERATION_UNPACK:
        for one in page:
            if one.refusal is None:
                decision = planning.decide_names(spec, one.source_key, one.target_key, one.size, None, rules)
                one.refusal, one.left_out = decision.refusal, decision.is_left_out
    return page
