"""The operation ``run``: the commands of a list as one transfer, with a row for each object of each line.

Each part is found and done as the operation that its lines ask for. A line that cannot be begun fails by itself; the
others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Final

from seqferry.db.objects import OpenObject, PlannedObject
from seqferry.engine.executor import Job, JobSequence
from seqferry.model.errors import SeqferryError, StorageError, UnsupportedError, UsageError
from seqferry.model.models import ResolvedSpec
from seqferry.planning import collisions, decision
from seqferry.planning.listing import KnownObjects
from seqferry.spec import overlaps, run
from seqferry.spec.run import RunLines, RunPart
from seqferry.workflows import operations
from seqferry.workflows.operations import BatchWork, OperationWork, transfer
from seqferry.workflows.operations.move import sources
from seqferry.workflows.operations.run import lines
from seqferry.workflows.runtime import Runtime


class Run(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = run.OPTIONS

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent
        # Before the first object is planned: a run with a part that this version does not know is not begun.
        parts = [(part, operations.work_of(part.spec)) for part in run.read_parts(spec)]
        pages = (page for part, operation in parts for page in _find(runtime, transfer_id, part, operation))
        yield from _unique(spec, pages) if overlaps.may_write_one_key(part.spec for part, _ in parts) else pages

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        known = RunLines(spec)
        items: dict[int, list[OpenObject]] = {}
        for one in work.items:
            number = known.number_of(one.source_key)
            items.setdefault(number, []).append(_of_part(known.parts[number], one))
        jobs: list[Job] = []
        for number, own in items.items():
            part = known.parts[number].spec
            jobs.append(operations.work_of(part).start(runtime, part, replace(work, items=own)))
        return JobSequence.of(jobs)

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        del spec
        sources.remove(runtime, transfer_id, claimed=claimed, resolve=lines.find_move)


OPERATION: Final[OperationWork] = Run()


def _find(runtime: Runtime, transfer_id: str, part: RunPart, operation: OperationWork) -> Iterator[list[PlannedObject]]:
    try:
        operation.prepare(runtime, part.spec, None)
        for page in operation.find(runtime, part.spec, None, transfer_id=transfer_id, target_absent=False):
            yield [_of_line(part, one) for one in page]
    except UnsupportedError:
        raise
    except SeqferryError as why:
        if isinstance(why, StorageError) and why.is_transient:
            raise
        yield [_plan_failed(part, line, why) for line in part.lines]


def _unique(spec: ResolvedSpec, pages: Iterator[list[PlannedObject]]) -> Iterator[list[PlannedObject]]:
    """The same pages, after all were seen: lines are done side by side, and content of one would be lost.

    Raises:
        StorageError: two lines write one key.
    """
    known = RunLines(spec)

    def names(one: PlannedObject) -> tuple[str, str, str | None]:
        part = known.parts[known.number_of(one.source_key)].spec
        # What is removed, and what fails, is written nowhere.
        to = (
            None
            if part.kind.removes or one.refusal
            else overlaps.canonical_address(part.target, run.key_of_row(one.target_key, part.target))
        )
        return one.source_key, one.version_id or "", to

    def fault(one: str, other: str, address: str) -> UsageError:
        (first, source), (second, also) = sorted((run.line_of_row(row), row.partition(" ")[2]) for row in (one, other))
        _, space, key = address.partition(" ")
        place = f"s3://{key}" if space and not address.startswith("/") else address
        return UsageError(
            f"Line {first} writes {source} and line {second} writes {also} to one place, {place}. Nothing was copied; "
            "write two lists."
        )

    yield from transfer.drop_duplicates(collisions.Spool(spec, names, astuple, transfer.restore_planned, fault), pages)


def _of_line(part: RunPart, planned: PlannedObject) -> PlannedObject:
    """An object of a part as a row of the run."""
    line = part.line_of(planned.source_key)
    return replace(
        planned,
        source_key=run.name_key(line, part.spec.source, planned.source_key),
        target_key=run.name_key(line, part.spec.target, planned.target_key),
    )


def _of_part(part: RunPart, one: OpenObject) -> OpenObject:
    return one._replace(
        source_key=run.key_of_row(one.source_key, part.spec.source),
        target_key=run.key_of_row(one.target_key, part.spec.target),
    )


def _plan_failed(part: RunPart, line: int, why: SeqferryError) -> PlannedObject:
    code = why.error_code if isinstance(why, StorageError) and why.error_code else why.code
    keys = part.spec.keys or ()
    number = part.lines.index(line)
    key = keys[number] if len(keys) == len(part.lines) else part.spec.source.key
    shown = run.name_key(line, part.spec.source, key)
    decided = decision.refuse(shown, code, why.message)
    return PlannedObject(
        source_key=shown,
        target_key=decided.target_key,
        size=0,
        etag="",
        last_modified=0.0,
        version_id=None,
        storage_class=None,
        refusal=decided.refusal,
    )
