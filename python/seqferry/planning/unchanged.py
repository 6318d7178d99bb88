"""Objects that are unchanged since an earlier transfer verified them: no request for each with ``--if-exists same``.

An object is unchanged when both sides are what they were when an earlier transfer of the same request, with the same
identities, copied it or found it identical: by time, ETag, checksum or content, never by its size alone. A wrong answer
would keep an outdated copy. So each side has to show it, and whatever does not is looked up (HEAD) and compared:

- **An object at the source** has the ETag and the LastModified that were listed then, and that LastModified was older
  than the transfer by ``SETTLED``. No later write has the same one.
- **An object at the target** has the ETag of the answer to our write, or the one that was compared. A service changes
  it with the bytes. A copy in place keeps it, so LastModified must show that nothing was written since: it is older
  than the transfer that compared it, by ``SETTLED``, or lies within the copy of the transfer that wrote it. Another
  write may have that time as well, so there only an ETag counts that is a digest: the bytes are ours in any case.
- **A file that was read or compared** has the size, the mtime and the inode of then, which are its ETag, and the
  ctime that it had before. An mtime can be set back, and a ctime cannot. A ctime is put on record only when it is older
  than the clock by ``SETTLED``: no later change has the same one.
- **A file that we wrote** has the size, the mtime and the inode that we gave it, and a ctime within its copy.

``SETTLED`` is the rule of git for entries of its index that are "racily clean". What is too recent for it is looked up,
and the record of that serves from then on. Clocks of two machines are compared for that margin and for copies that we
wrote only. Where they differ by more, copies are looked up once more. A storage with a slow clock may hide a copy in
place for that time, whose bytes are the same.

Invariant: no request, no clock and no disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec

if TYPE_CHECKING:
    from seqferry.db.earlier_objects import EarlierObject
    from seqferry.planning.decision import ListedObject

_CLOCKS: Final = 1.0
"""Seconds by which the clocks of two machines may differ. A choice: those that are set by NTP differ by far less."""

SETTLED: Final = 1.0 + _CLOCKS
"""Seconds after which a time is not that of a later change: times may be whole seconds."""

_TICK: Final = 0.05
"""Seconds by which the time of a file may be before the clock: kernels stamp files by the last tick of their timer."""

_VERIFIED: Final = frozenset({"time", "etag", "checksum", "content"})
_DIGEST: Final = re.compile(r"[0-9a-f]{32}(-[0-9]{1,5})?", re.ASCII)


class Recorded(NamedTuple):
    """The record of an object, and the last change (ctime) of its file at the source or at the target as it is now."""

    earlier: EarlierObject
    file_changed: float | None


def may_decide(spec: ResolvedSpec) -> bool:
    """True for transfers whose objects may be skipped by the record of an earlier one.

    What removes sources, only compares, or demands to compare checksums or contents does not rest on it.
    """
    return (
        spec.kind.is_plain
        and spec.selection.if_exists == "same"
        and spec.storage.verify == "auto"
        and not spec.versions
    )


def settled(changed: float, now: float) -> float | None:
    """A ctime, for the record; None when a later change could have the same. ``now``: the clock before it was read."""
    return changed if 0 < changed <= now - SETTLED else None


def find_verification(
    spec: ResolvedSpec, found: ListedObject, there: ListedObject, target_key: str, recorded: Recorded
) -> str | None:
    """Verification on record of an object, if both sides are unchanged since then; None: it is to be looked up.

    Args:
        found, there: source and target as they are listed now.
    """
    earlier = recorded.earlier
    if (
        earlier.verified not in _VERIFIED
        or earlier.state not in ("done", "skipped")
        or (found.key, target_key) != (earlier.source_key, earlier.target_key)
        or not found.size == there.size == earlier.size
        or not found.etag
        or found.etag != earlier.etag
        or not there.etag
        or there.etag != earlier.target_etag
    ):
        return None
    is_same_source = _is_same_source(spec, found, recorded)
    return earlier.verified if is_same_source and _is_same_target(spec, there, recorded) else None


def _is_same_source(spec: ResolvedSpec, found: ListedObject, recorded: Recorded) -> bool:
    earlier = recorded.earlier
    if isinstance(spec.source, LocalFolder):
        return _is_same_file(recorded)
    return found.last_modified == earlier.last_modified and found.last_modified < earlier.since - SETTLED


def _is_same_target(spec: ResolvedSpec, there: ListedObject, recorded: Recorded) -> bool:
    earlier = recorded.earlier
    if earlier.state == "skipped":
        if isinstance(spec.target, LocalFolder):
            return _is_same_file(recorded)
        return there.last_modified < earlier.since - SETTLED
    if earlier.started_at is None or earlier.ended_at is None:
        return False
    if isinstance(spec.target, LocalFolder):
        changed = recorded.file_changed
        return changed is not None and earlier.started_at - _TICK <= changed <= earlier.ended_at
    is_own = earlier.started_at - SETTLED <= there.last_modified <= earlier.ended_at + _CLOCKS
    return is_own and _DIGEST.fullmatch(there.etag) is not None


def _is_same_file(recorded: Recorded) -> bool:
    return recorded.file_changed is not None and recorded.file_changed == recorded.earlier.file_changed
