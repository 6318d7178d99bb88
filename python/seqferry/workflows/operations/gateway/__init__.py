"""The operation ``gateway``: what a share has uploaded. A gateway puts it on record when it has ended.

What must stay true: no worker begins it. A row that was made unfinished in another way ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn

from seqferry.db.objects import PlannedObject
from seqferry.engine.executor import Job
from seqferry.model.errors import UnsupportedError
from seqferry.model.models import ResolvedSpec
from seqferry.planning.listing import KnownObjects
from seqferry.spec import gateway
from seqferry.workflows.operations import BatchWork, OperationWork
from seqferry.workflows.runtime import Runtime


class Gateway(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = gateway.OPTIONS

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        del runtime, spec, known
        _refuse()

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        del runtime, spec, known
        _refuse()

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del runtime, spec, known, transfer_id, target_absent
        _refuse()

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        del runtime, spec, work
        _refuse()


def _refuse() -> NoReturn:
    raise UnsupportedError.of("the work of a gateway in a worker")


OPERATION: Final[OperationWork] = Gateway()
