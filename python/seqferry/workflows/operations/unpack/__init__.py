"""The operation ``unpack``: members of an archive become objects or files, each with a row of its own.

A row holds where its member lies in the archive, so that a batch needs neither the index nor a second look at the
headers of others, and a run after a kill continues with the members that have not ended.

What must stay true: the whole archive is accepted before the first member is on record; a member counts as done only
when the engine has verified it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from seqferry.db.objects import PlannedObject
from seqferry.db.record import events
from seqferry.engine.engine import FoundMember, Job
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths
from seqferry.planning import unpacking
from seqferry.planning.batching import Limit
from seqferry.planning.listing import KnownObjects
from seqferry.planning.unpacking import FolderMember, MemberDecision
from seqferry.workflows.operations import BatchWork, OperationWork, places
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.runtime import Runtime

_FOLDERS: Final = "folders_found"
"""Event: folders of the archive, as path, mode and time: nanoseconds, or seconds as a number with a point."""

_FOLDERS_PER_EVENT: Final = 1000
COMPRESSED: Final = Limit(objects=200_000, bytes=1 << 62)
_COMPRESSED_TARS: Final = (".tar.gz", ".tgz", ".taz", ".tar.zst", ".tar.zstd", ".tzst", ".tar.bgz")


class Unpack(OperationWork):
    """See ``workflows.operations.OperationWork``."""

    options = unpacking.OPTIONS

    def batch_limit(self, spec: ResolvedSpec) -> Limit | None:
        """One batch for a compressed tar: each one decompresses it from the start."""
        return COMPRESSED if spec.source.key.lower().endswith(_COMPRESSED_TARS) else None

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        places.prepare(runtime, spec, known)

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        return places.target_is_empty(runtime, spec, known)

    def find(
        self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[PlannedObject]]:
        del known, target_absent  # the target is checked for each member
        folders: list[FolderMember] = []
        pages = unpacking.decide_members(
            runtime.engine, spec, runtime.key_rules(transfer_id), retain=True, folders=folders
        )
        for page in pages:
            if len(folders) >= _FOLDERS_PER_EVENT:
                _record_folders(runtime, transfer_id, folders)
            yield [_plan_object(member, decision) for member, decision in page]
        _record_folders(runtime, transfer_id, folders)

    def start(self, runtime: Runtime, spec: ResolvedSpec, work: BatchWork) -> Job:
        # The engine takes the place of a member as the version of its source.
        items = [one._replace(version_id=one.member_place) for one in work.items]
        return runtime.engine.start_members(
            spec,
            [copy_item(one, target_absent=work.target_absent) for one in items],
            work.context,
        )

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        """Give folders their times and permissions, which writing to them has changed."""
        del claimed
        with runtime.database.read() as connection:
            found = events.read(connection, transfer_id, 0, kind=_FOLDERS)
        if not found:
            return
        target = spec.target
        assert isinstance(target, LocalFolder)
        for event in found:
            runtime.check()
            for path, mode, modified in event.data["folders"]:
                paths.set_folder_attributes(
                    target.path, path, mode, modified, preserve_permissions=target.preserve_permissions
                )


OPERATION: Final[OperationWork] = Unpack()


def _record_folders(runtime: Runtime, transfer_id: str, folders: list[FolderMember]) -> None:
    """Put folders on record for the end of the transfer, and empty the list. Once more after a kill does no harm."""
    if not folders:
        return
    data = {"folders": [list(one) for one in folders]}
    folders.clear()
    with runtime.database.write(durable=False) as connection:
        events.append(connection, transfer_id, time.time(), _FOLDERS, runtime.actor, data)


def _plan_object(member: FoundMember | None, member_decision: MemberDecision) -> PlannedObject:
    source_key, decision = member_decision
    return PlannedObject(
        source_key=source_key,
        target_key=decision.target_key,
        size=0 if member is None else member.size,
        etag="" if member is None else member.etag,
        last_modified=0.0 if member is None else member.modified,
        version_id=None,
        member_place="" if member is None else member.place,
        storage_class=None,
        refusal=decision.refusal,
        left_out=decision.is_left_out,
    )
