"""Members of an archive that is made: the objects that become its members, are left out, or forbid it.

Invariant: the same answer for a dry run and for the transfer itself; no archive lacks a member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from seqferry.engine.engine import Engine, FailedLookup, ObjectInfo
from seqferry.engine.rules import pack_shards
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths
from seqferry.planning import decision, listing
from seqferry.planning.decision import KeyRules
from seqferry.spec import pack

MOST: Final = 10_000_000
"""Most members of all shards together: planning sorts them in memory, at some 300 bytes each."""

_NAMED_AT_MOST: Final = 3


class Member(NamedTuple):
    """An object of the source.

    Attributes:
        left_out: code and reason if it is no member, which is not an error (a device, a socket).
    """

    found: ObjectInfo
    left_out: tuple[str, str] | None = None


def members(engine: Engine, spec: ResolvedSpec, rules: KeyRules) -> Iterator[list[Member]]:
    """Pages of members and of what is left out, in no order; empty pages while waiting.

    Raises:
        StorageError: the listing failed; or, after the last page, an object cannot be a member, one that was named is
            not there, or there are too many.
    """
    seen = 0
    refused: list[str] = []
    for infos in listing.list_objects(engine, spec):
        page: list[Member] = []
        for info in infos:
            if isinstance(info, FailedLookup):
                if decision.is_key_selected(spec, info.key):
                    refused.append(_why_not(spec, info))
                continue
            if decision.is_marker(spec, info.key, info.size) or not decision.is_selected(spec, info):
                continue
            decided = decision.decide_names(spec, info.key, spec.target.key, info.size, info.refusal, rules)
            if decided.action == "refuse":
                refused.append((decided.reason or "").removesuffix("."))
            else:
                page.append(Member(info, decided.refusal))
        seen += len(page)
        if seen > MOST:
            raise _refusal("TooManyMembers", [f"more than {MOST:,} objects lie there"])
        yield page
    if refused:
        raise _refusal("MemberRefused", refused)


def _why_not(spec: ResolvedSpec, found: FailedLookup) -> str:
    return f"{spec.source.at(found.key)} is not there" if found.is_absent else found.failure.message.removesuffix(".")


def order(source_key: str) -> bytes:
    """Sort key of members in their archives."""
    return source_key.encode("utf-8", "surrogateescape")


def shard_ends(spec: ResolvedSpec, source_keys: Sequence[str], sizes: Sequence[int]) -> list[int]:
    """The ordinals at which shards end, of members in their ``order``.

    Raises:
        StorageError: they have more bytes than any tar can hold.
    """
    return pack_shards([key.removeprefix(spec.strip) for key in source_keys], list(sizes), spec.options[pack.SPLIT])


def refuse_later_shards(engine: Engine, spec: ResolvedSpec, count: int) -> None:
    """Refuse to leave a shard of an earlier pack behind the ``count`` shards of this one.

    All shards together would give files that the source no longer has.

    Raises:
        StorageError: there is one.
    """
    if count == 0 or (isinstance(spec.target, LocalFolder) and paths.is_absent(spec.target.path)):
        return
    key = pack.shard_key(spec, count)
    (found,) = engine.head_each(spec.target, [key])
    # Writing may be allowed where looking is not.
    if isinstance(found, FailedLookup):
        return
    message = (
        f"{spec.target.at(key)} is there, and this pack ends with {pack.shard_key(spec, count - 1)}: it is of an "
        "earlier pack, and all shards together would give files that are no longer in the source. Remove it and those "
        "behind it, or choose another name. Nothing was written."
    )
    raise StorageError(message, "object", "LaterShards", "plan", True)


def _refusal(code: str, causes: list[str]) -> StorageError:
    more = f" and {len(causes) - _NAMED_AT_MOST} more" if len(causes) > _NAMED_AT_MOST else ""
    named = "; ".join(causes[:_NAMED_AT_MOST])
    message = f"No archive is made that lacks members: {named}{more}. Nothing was written."
    return StorageError(message, "object", code, "plan", True)
