"""Runs in order: a line begins when the one before it has ended well, its sources removed if it is a move.

What must stay true: what a line has reached is on record before anything depends on it, so that a run after a kill
continues with the interrupted line. A failed line stops the run: no later line is begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from seqferry.db import objects, transfers
from seqferry.db.objects import ArrivedObject, PlannedObject
from seqferry.db.record import events, receipts
from seqferry.model import names
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.spec import run, stored
from seqferry.spec.run import RunPart
from seqferry.workflows.operations import Barrier, OperationWork
from seqferry.workflows.operations.move import sources
from seqferry.workflows.operations.run import lines
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused

ARRIVED: Final = run.LINE_ARRIVED
ENDED: Final = run.LINE_ENDED

LineFinder = Callable[[Runtime, str, RunPart, OperationWork], Iterator[list[PlannedObject]]]


def is_enabled(runtime: Runtime, transfer_id: str) -> bool:
    with runtime.database.read() as connection:
        row = transfers.row_of(connection, transfer_id)
    return row is not None and bool(stored.read(row.spec).options.get(run.IN_ORDER))


def find(
    runtime: Runtime,
    spec: ResolvedSpec,
    transfer_id: str,
    parts: Sequence[tuple[RunPart, OperationWork]],
    of_line: LineFinder,
) -> Iterator[list[PlannedObject]]:
    """The pages of each line, and a barrier after it."""
    with runtime.database.read() as connection:
        arrived, ended = (events.last(connection, transfer_id, kind) for kind in (ARRIVED, ENDED))
    done = int(spec.options.get(run.AFTER, 0)) if ended is None else int(ended["line"])
    copied = 0 if arrived is None else int(arrived["line"])
    for part, operation in parts:
        [line] = part.lines
        if line <= done:
            continue
        if line > copied:
            yield from of_line(runtime, transfer_id, part, operation)
            yield Barrier()
            if _stop_after_failures(runtime, transfer_id, line):
                return
            if part.spec.kind.removes_sources and not _note(runtime, transfer_id, ARRIVED, line):
                return
        if part.spec.kind.removes_sources:
            _remove_sources(runtime, transfer_id, line)
        if not _note(runtime, transfer_id, ENDED, line):
            return


def _stop_after_failures(runtime: Runtime, transfer_id: str, line: int) -> bool:
    """End the run when an object of its latest line has failed; those before have none."""
    with runtime.database.read() as connection:
        failed = receipts.read_totals(connection, transfer_id)["failed"]
    if not failed:
        return False
    objects_failed = f"{failed:,} object{'' if failed == 1 else 's'} failed"
    text = (
        f"Line {line} did not end well ({objects_failed}), and the lines after it were not begun. Put that right, then "
        f"go on with it: seqferry retry {transfer_id}"
    )
    with runtime.database.write() as connection:
        transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, "LineFailed", text)
    return True


def _remove_sources(runtime: Runtime, transfer_id: str, line: int) -> None:
    def of_line(spec: ResolvedSpec, one: ArrivedObject) -> tuple[ResolvedSpec, ArrivedObject] | None:
        return lines.find_move(spec, one) if run.line_of_row(one.source_key) == line else None

    with runtime.database.read() as connection:
        first = objects.find_by_prefix(connection, transfer_id, f"{line} ")
    if first is not None:
        sources.remove(runtime, transfer_id, claimed=True, resolve=of_line, since=first - 1, is_planned=False)


def _note(runtime: Runtime, transfer_id: str, kind: str, line: int) -> bool:
    """Put on record how far a line is; False when the transfer is not wanted any more."""
    with runtime.database.write() as connection:
        runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
        row = transfers.row_of(connection, transfer_id)
        raise_if_paused(row)
        if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row):
            return False
        events.append(connection, transfer_id, time.time(), kind, runtime.actor, {"line": line})
    return True
