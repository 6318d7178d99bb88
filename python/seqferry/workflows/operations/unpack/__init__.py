"""The operation ``unpack``: members of an archive become objects or files, each with a row of its own.

A row holds where its member lies in the archive, so that a batch needs neither the index nor a second look at the
headers of others, and a run after a kill goes on with the members that have not ended.

What must stay true: the whole archive is accepted before the first member is on record; a member counts as done only
when the engine has verified it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seqferry import listing, paths, preflight, unpacking
from seqferry.batching import Limit
from seqferry.db.objects import OpenObject, Planned
from seqferry.engine import CopyItem, FoundMember, Job
from seqferry.listing import KnownObjects
from seqferry.models import LocalFolder, TransferSpec
from seqferry.unpacking import MemberDecision
from seqferry.workflows.operations import Operation, Work
from seqferry.workflows.runtime import Runtime

COMPRESSED: Final = Limit(objects=200_000, bytes=1 << 62)
_COMPRESSED_TARS: Final = (".tar.gz", ".tgz", ".taz", ".tar.zst", ".tar.zstd", ".tzst", ".tar.bgz")


class Unpack:
    """See ``workflows.operations.Operation``."""

    pages_are_batches = False

    @property
    def options(self) -> frozenset[str]:
        return unpacking.OPTIONS

    def batch_limit(self, spec: TransferSpec) -> Limit | None:
        """One batch for a compressed tar: each one decompresses it from the start."""
        return COMPRESSED if spec.source.key.lower().endswith(_COMPRESSED_TARS) else None

    def prepare(self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None) -> None:
        if known is None:
            preflight.check_buckets(runtime.engine, spec)
        if isinstance(spec.target, LocalFolder):
            paths.make(spec.target.path)

    def target_is_empty(self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None) -> bool:
        if known is not None and known.target_absent is not None:
            return known.target_absent
        return listing.target_is_empty(runtime.engine, spec)

    def find(
        self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None, *, target_absent: bool
    ) -> Iterator[list[Planned]]:
        del known, target_absent  # what is at the target is looked at member by member
        for page in unpacking.decided(runtime.engine, spec, str(runtime.state_dir)):
            yield [_planned(member, decision) for member, decision in page]

    def start(self, runtime: Runtime, spec: TransferSpec, work: Work) -> Job:
        return runtime.engine.start_members(
            spec,
            [_item(one, target_absent=work.target_absent) for one in work.items],
            transfer=work.transfer_id,
            resumed=work.resumed,
            since=work.since,
            only_clean=work.only_clean,
            epoch=work.epoch,
        )

    def finish(self, runtime: Runtime, transfer_id: str, *, claimed: bool) -> None:
        """Nothing is left to do."""

    def tidy(self, runtime: Runtime, spec: TransferSpec) -> None:
        """Nothing was kept."""


OPERATION: Final[Operation] = Unpack()


def _planned(member: FoundMember | None, decision: MemberDecision) -> Planned:
    refused = None if decision.code is None else (decision.code, decision.reason or "")
    return Planned(
        source_key=decision.source_key,
        target_key=decision.target_key,
        size=0 if member is None else member.size,
        etag="" if member is None else member.etag,
        last_modified=0.0 if member is None else member.modified,
        version_id=None if member is None else member.place,
        storage_class=None,
        refusal=refused,
        left_out=decision.left_out,
    )


def _item(one: OpenObject, *, target_absent: bool) -> CopyItem:
    return CopyItem(
        id=one.id,
        source_key=one.source_key,
        target_key=one.target_key,
        size=one.size,
        etag=one.etag,
        version_id=one.version_id,
        target_absent=target_absent,
        upload_id=one.upload_id,
        part_size=one.part_size,
    )
