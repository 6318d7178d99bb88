"""The objects of a transfer that retries another: those that the other has not brought to its target.

They are read from the rows of the other transfer, without a request. A source that has changed since then is noticed
when it is read, as within a transfer. Objects that planning had refused are checked again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, cast

from seqferry.db import failed_objects, transfers
from seqferry.db.objects import PlannedObject
from seqferry.engine import buckets
from seqferry.engine.engine import Listed
from seqferry.model.errors import StorageError
from seqferry.model.models import (
    DONE_STATES,
    RETRY_CAUSE,
    ResolvedSpec,
)
from seqferry.planning import decision, listing
from seqferry.planning.decision import KeyRules
from seqferry.spec import run
from seqferry.workflows.operations import transfer, work_of
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.transfer")

_PAGE: Final = 1000


def uses_recorded_objects(spec: ResolvedSpec) -> bool:
    """True when the objects come from the rows of another transfer. An archive that is packed is made as a whole."""
    return spec.retry_of is not None and not work_of(spec).pages_are_batches


def find(runtime: Runtime, spec: ResolvedSpec, transfer_id: str) -> Iterator[list[PlannedObject]]:
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
            page, after = failed_objects.read_unfinished(
                connection,
                spec.retry_of,
                after,
                _PAGE,
                also_cancelled=other.state not in DONE_STATES,
                is_expected=spec.kind.verifies_record,
                cause=spec.options.get(RETRY_CAUSE),
            )
        carried = [one for one in page if one.carried]
        again = [one for one in page if not one.carried] if carried else page
        yield carried + _decide_names(spec, _look_again(runtime, spec, again, rules), rules)


def _look_again(
    runtime: Runtime, spec: ResolvedSpec, page: list[PlannedObject], rules: KeyRules
) -> list[PlannedObject]:
    """The page, with new decisions about the objects that planning had refused, where they can be read."""
    refused = [one for one in page if one.refusal is not None]
    if not refused:
        return page
    again: dict[int, PlannedObject | None] = {}
    for part, ones in _by_part(spec, refused):
        if not part.kind.from_listing:
            continue
        try:
            found = _look_up(runtime, part, [(key, one.version_id or "") for key, one in ones])
        except (StorageError, UnicodeError) as why:
            log.warning("%s: refused objects are not checked again: %s", part.source.uri, why)
            continue
        for (_, one), info in zip(ones, found, strict=True):
            choice = decision.decide(part, info, rules)
            planned = replace(
                transfer.plan_object(info, choice),
                source_key=one.source_key,
                target_key=one.target_key,
                size=info.size or one.size,  # if it still cannot be read, the size is the recorded one
            )
            again[id(one)] = None if choice.action == "ignore" else planned
    decided = [again.get(id(one), one) for one in page]
    return [one for one in decided if one is not None]


def _by_part(
    spec: ResolvedSpec, refused: Sequence[PlannedObject]
) -> list[tuple[ResolvedSpec, list[tuple[str, PlannedObject]]]]:
    """Objects with their keys, by the spec that they belong to: a run has one for each of its parts."""
    if not spec.kind.runs_list:
        return [(spec, [(one.source_key, one) for one in refused])]
    lines = run.RunLines(spec)
    found: dict[int, list[tuple[str, PlannedObject]]] = {}
    for one in refused:
        number = lines.number_of(one.source_key)
        key = run.key_of_row(one.source_key, lines.parts[number].spec.source)
        found.setdefault(number, []).append((key, one))
    return [(lines.parts[number].spec, ones) for number, ones in found.items()]


def _look_up(runtime: Runtime, spec: ResolvedSpec, wanted: list[tuple[str, str]]) -> Sequence[Listed]:
    if any(version for _, version in wanted) and spec.versions:
        return cast("Sequence[Listed]", buckets.look_up_versions(runtime.engine, spec.source, wanted))
    return listing.look_up(runtime.engine, spec.source, [key for key, _ in wanted])


def _decide_names(spec: ResolvedSpec, page: list[PlannedObject], rules: KeyRules) -> list[PlannedObject]:
    """The page, with new decisions about names: the other transfer may be from a client with other rules."""
    if spec.kind.copies or spec.kind.unpacks:
        for one in page:
            if one.refusal is None:
                choice = decision.decide_names(spec, one.source_key, one.target_key, one.size, None, rules)
                one.refusal, one.left_out = choice.refusal, choice.is_left_out
    return page
