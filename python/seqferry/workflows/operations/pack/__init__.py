"""The operation ``pack``: what lies below a prefix or a folder becomes one tar, or shards of a set size.

A batch is an archive: its objects are the members, and its first one carries the upload. All batches are added at once,
so that a repeated planning never makes an archive of what came later.

What must stay true: a run of a batch gets all of its members, also those whose end is on record already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seqferry import listing, packing, paths, planning
from seqferry.db import objects
from seqferry.db.objects import Planned
from seqferry.engine import Job, ObjectInfo, pack_shards
from seqferry.errors import StorageError
from seqferry.listing import KnownObjects
from seqferry.models import TransferSpec
from seqferry.workflows.operations import Operation, Work, places
from seqferry.workflows.operations.places import copy_item
from seqferry.workflows.runtime import Runtime

_MOST_MEMBERS: Final = 10_000_000
"""Of all shards together: planning sorts them in memory, at some 300 bytes each."""

_NAMED_AT_MOST: Final = 3


class Pack:
    """See ``seqferry.workflows.operations.Operation``."""

    options = packing.OPTIONS
    pages_are_batches = True

    def prepare(self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None) -> None:
        places.prepare(runtime, spec, known)

    def target_is_empty(self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None) -> bool:
        del known
        found = runtime.engine.head(spec.target, [packing.shard_key(spec, 0)])
        return found == [None]

    def find(
        self, runtime: Runtime, spec: TransferSpec, known: KnownObjects | None, *, transfer_id: str, target_absent: bool
    ) -> Iterator[list[Planned]]:
        del known, transfer_id, target_absent
        members: list[Planned] = []
        left_out: list[Planned] = []
        refused: list[str] = []
        missing: list[str] = []
        for page in listing.objects(runtime.engine, spec, missing.extend):
            for info in page:
                if _is_marker(spec, info) or not planning.is_selected(spec, info):
                    continue
                key = spec.target.key
                why = planning.refusal(spec, info.key, key, info.size, info.refusal, str(runtime.state_dir))
                planned = Planned(
                    source_key=info.key,
                    target_key=key,
                    size=info.size,
                    etag=info.etag,
                    last_modified=info.last_modified,
                    version_id=info.version_id,
                    storage_class=info.storage_class,
                    refusal=why,
                    left_out=why is not None and why[0] in paths.LEFT_OUT,
                )
                if why is None:
                    members.append(planned)
                elif planned.left_out:
                    left_out.append(planned)
                else:
                    refused.append(why[1].removesuffix("."))
            if len(members) > _MOST_MEMBERS:
                raise _refusal("TooManyMembers", [f"more than {_MOST_MEMBERS:,} objects lie there"])
            yield []
        refused += [f"{spec.source.at(key)} is not there" for key in missing]
        if refused:
            raise _refusal("MemberRefused", refused)
        members.sort(key=lambda one: one.source_key.encode("utf-8", "surrogateescape"))
        yield from _archives(spec, members, left_out)

    def start(self, runtime: Runtime, spec: TransferSpec, work: Work) -> Job:
        items = work.items
        if not work.only_clean and items:
            with runtime.database.read() as connection:
                members = objects.whole_batch(connection, work.transfer_id, items[0].id)
            if members.failed is not None:
                raise StorageError(members.failed, "object", "ArchiveNotMade", "pack")
            items = members.objects
        return runtime.engine.pack(
            spec,
            [copy_item(one) for one in items],
            index=packing.NO_INDEX not in spec.options,
            transfer=work.transfer_id,
            resumed=work.resumed,
            since=work.since,
            only_clean=work.only_clean,
            epoch=work.epoch,
        )

    def finish(self, runtime: Runtime, transfer_id: str, *, claimed: bool) -> None: ...

    def tidy(self, runtime: Runtime, spec: TransferSpec) -> None: ...


OPERATION: Final[Operation] = Pack()


def _is_marker(spec: TransferSpec, info: ObjectInfo) -> bool:
    """Whether it is the empty object that a console makes for the source itself: no name is left for it."""
    return info.size == 0 and info.key == spec.strip


def _archives(spec: TransferSpec, members: list[Planned], left_out: list[Planned]) -> Iterator[list[Planned]]:
    """The members of each archive."""
    split = spec.options.get(packing.SPLIT)
    if split is None:
        if members or left_out:
            yield members + left_out
        return
    names = [one.source_key.removeprefix(spec.strip) for one in members]
    start = 0
    for number, end in enumerate(pack_shards(names, [one.size for one in members], split)):
        for member in members[start:end]:
            member.target_key = packing.shard_key(spec, number)
        # What is left out belongs to no shard; the first one tells of it.
        yield members[start:end] + (left_out if number == 0 else [])
        start = end


def _refusal(code: str, causes: list[str]) -> StorageError:
    more = f" and {len(causes) - _NAMED_AT_MOST} more" if len(causes) > _NAMED_AT_MOST else ""
    named = "; ".join(causes[:_NAMED_AT_MOST])
    message = f"No archive is made that lacks members: {named}{more}. Nothing was written."
    return StorageError(message, "object", code, "plan", True)
