"""Members of an archive that is made: the objects that become its members, are left out, or forbid it.

What must stay true: the same answer for a dry run and for the transfer itself; no archive lacks a member.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from seqferry import listing, planning
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import StorageError
from seqferry.models import TransferSpec

MOST: Final = 10_000_000
"""Of all shards together: planning sorts them in memory, at some 300 bytes each."""

_NAMED_AT_MOST: Final = 3


class Member(NamedTuple):
    """An object of the source.

    Attributes:
        left_out: why it is no member, though that forbids nothing (a device, a socket), for machines and in words.
    """

    found: ObjectInfo
    left_out: tuple[str, str] | None = None


def members(engine: Engine, spec: TransferSpec, own: str) -> Iterator[list[Member]]:
    """Pages of members and of what is left out, in no order; empty pages while waiting.

    Args: ``own`` is the folder of our records.

    Raises:
        StorageError: the listing failed; or, after the last page, an object cannot be a member, one that was named is
            not there, or there are too many.
    """
    seen = 0
    refused: list[str] = []
    missing: list[str] = []
    for infos in listing.objects(engine, spec, missing.extend):
        page: list[Member] = []
        for info in infos:
            if _is_marker(spec, info) or not planning.is_selected(spec, info):
                continue
            decision = planning.decide_names(spec, info.key, spec.target.key, info.size, info.refusal, own)
            if decision.action == "refuse":
                refused.append((decision.reason or "").removesuffix("."))
            else:
                page.append(Member(info, decision.refusal))
        seen += len(page)
        if seen > MOST:
            raise _refusal("TooManyMembers", [f"more than {MOST:,} objects lie there"])
        yield page
    refused += [f"{spec.source.at(key)} is not there" for key in missing]
    if refused:
        raise _refusal("MemberRefused", refused)


def _is_marker(spec: TransferSpec, info: ObjectInfo) -> bool:
    """True for the empty object that a console makes for the source itself: no name is left for it."""
    return info.size == 0 and info.key == spec.strip


def _refusal(code: str, causes: list[str]) -> StorageError:
    more = f" and {len(causes) - _NAMED_AT_MOST} more" if len(causes) > _NAMED_AT_MOST else ""
    named = "; ".join(causes[:_NAMED_AT_MOST])
    message = f"No archive is made that lacks members: {named}{more}. Nothing was written."
    return StorageError(message, "object", code, "plan", True)
