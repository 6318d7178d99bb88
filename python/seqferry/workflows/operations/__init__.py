"""The work of an operation: it finds the objects, does the work on a batch of them, and ends a transfer.

The workflows around it are the same for all: batches, recording, retries, cancelling, resuming after a kill. To add an
operation: a package here with an ``OPERATION``, and an entry in ``seqferry.model.operations``.

Invariant: each method can be called again after a kill, without a further effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module

from seqferry.db.objects import OpenObject, PlannedObject
from seqferry.engine.engine import JobContext
from seqferry.engine.executor import Job
from seqferry.model import operations
from seqferry.model.errors import UnsupportedError
from seqferry.model.frozen import frozen
from seqferry.model.models import RETRY_CAUSE, ResolvedSpec
from seqferry.planning.batching import Limit
from seqferry.planning.listing import KnownObjects
from seqferry.workflows.runtime import Runtime


@frozen
class BatchWork:
    """A batch to be worked on.

    Attributes:
        since: birth of the transfer, seconds since the epoch.
        target_was_empty: True when nothing was at the target as the transfer began.
        resumed: an earlier run may have been cut off, so that its traces are looked for.
        only_clean: True to remove only what earlier runs have left open.
        epoch: of the lease to write, where there is one.
    """

    transfer_id: str
    items: Sequence[OpenObject]
    since: float
    target_was_empty: bool
    resumed: bool
    only_clean: bool
    epoch: int | None

    @property
    def context(self) -> JobContext:
        """The same for the engine."""
        return JobContext(
            self.transfer_id,
            self.since,
            resumed=self.resumed,
            target_was_empty=self.target_was_empty,
            only_clean=self.only_clean,
            epoch=self.epoch,
        )

    @property
    def target_absent(self) -> bool:
        """True when nothing can be at the target: it was empty, and this is the first run."""
        return self.target_was_empty and not self.resumed


class OperationWork(ABC):
    """Work of one operation. Facts of it that other packages need are in ``model.operations``."""

    options: frozenset[str] = frozenset()
    """Names of options of its own that a spec may have."""

    pages_are_batches: bool = False
    """True when each page of ``find`` is one batch. All batches are then added in one transaction, once."""

    divides_batches: bool = False
    """True when a batch may be divided among workers: each object is work of its own, with requests of its own."""

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:  # noqa: B027
        """Check that source and target can be used, and create what they need. ``known``: findings of an earlier check.

        Raises:
            StorageError: a place cannot be used.
        """

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        """True when nothing is at the target, so that no object needs to be looked up there. Called once."""
        del runtime, spec, known
        return False

    @abstractmethod
    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        """Pages of the objects to be worked on, in any order and bounded memory; empty pages while waiting.

        ``target_absent``: True when nothing was at the target as the transfer began.
        """

    @abstractmethod
    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        """Begin the work on a batch.

        Raises:
            StorageError: the work cannot begin.
        """

    def has_end(self, spec: ResolvedSpec) -> bool:
        """True when ``finish`` may have something to do."""
        del spec
        return True

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:  # noqa: B027
        """Do the work that is left when all objects have ended, whether or not all have arrived."""


def work_of(spec: ResolvedSpec) -> OperationWork:
    """The work of the operation of a spec.

    Raises:
        UnsupportedError: this version does not know it, or an option of it.
    """
    operations.require_known(spec.operation)
    work: OperationWork = import_module(spec.kind.module).OPERATION
    for name in spec.options:
        if name not in work.options and name != RETRY_CAUSE:
            raise UnsupportedError.of(f"the option '{name}' of the operation '{spec.operation}'")
    return work


def batch_limit(spec: ResolvedSpec) -> Limit | None:
    """The limit of batches from the ``batch_limit`` of an operation; None: the default."""
    own_limit = getattr(work_of(spec), "batch_limit", None)
    return None if own_limit is None else own_limit(spec)
