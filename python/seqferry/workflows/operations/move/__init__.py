"""The operation ``move``: objects are copied and verified, and then removed at the source.

What must stay true: an object is removed only when its copy is on record as verified and is still there, and only
while it is what was copied. Killed anywhere, it is at one of both places at least.
"""

from __future__ import annotations

from typing import Final

from seqferry.model.models import ResolvedSpec
from seqferry.workflows.operations import OperationWork
from seqferry.workflows.operations.move import sources
from seqferry.workflows.operations.transfer import Transfer
from seqferry.workflows.runtime import Runtime


class Move(Transfer):
    """See ``workflows.operations.OperationWork``."""

    def has_end(self, spec: ResolvedSpec) -> bool:
        del spec
        return True

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        del spec
        sources.remove(runtime, transfer_id, claimed=claimed)


OPERATION: Final[OperationWork] = Move()
