"""The keys that a transfer writes to or removes, and whether two transfers can meet there."""

from __future__ import annotations

from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints
from seqferry.spec import pack
from seqferry.spec.target_keys import target_key

_DISK: Final = "disk"


_NOWHERE: Final = "nowhere"
"""The place of what writes nothing, waits for no writer and keeps none waiting."""


def target_store(spec: TransferSpec) -> str:
    """The bucket of the target at its endpoint, or the disks of a host. Keys of different places never meet."""
    if spec.kind.verifies_record:
        return _NOWHERE
    if isinstance(spec.target, LocalFolder):
        return _DISK if spec.target.host is None else f"{_DISK}@{spec.target.host}"
    return f"{endpoints.resolve(spec.target) or 'aws'} {spec.target.bucket}"


def target_prefix(spec: TransferSpec) -> str:
    """The start of all keys, or paths, that the transfer writes to, in a form that any database can store."""
    named = _target_keys(spec)
    start = _start(spec) if named is None else _common(named)
    return start.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def may_overlap(one: TransferSpec, other: TransferSpec) -> bool:
    """True when both transfers may write to the same key."""
    if target_store(one) != target_store(other) or target_store(one) == _NOWHERE:
        return False
    named, others = _target_keys(one), _target_keys(other)
    if named is not None and others is not None:
        return not named.isdisjoint(others)
    if named is None and others is None:
        mine, theirs = _start(one), _start(other)
        return mine.startswith(theirs) or theirs.startswith(mine)
    whole = other if named is not None else one
    start = _start(whole)
    return any(key.startswith(start) for key in named or others or ())


def _target_keys(spec: TransferSpec) -> set[str] | None:
    """All keys that the transfer can write to; None for everything below a prefix."""
    if spec.single:
        return {_whole(spec, spec.target.key)}
    if spec.keys is None:
        return None
    versions = spec.versions or ("",) * len(spec.keys)
    named = zip(spec.keys, versions, strict=True)
    try:
        return {_whole(spec, target_key(spec, spec.source.key + key, version)) for key, version in named}
    except UsageError:
        # On record from a version that took its rules: it writes nothing, and must not stop other submissions.
        return None


def _start(spec: TransferSpec) -> str:
    """Common prefix of all keys that a transfer of everything below a prefix writes to."""
    return _whole(spec, pack.key_prefix(spec) if spec.kind.packs else spec.target.key)


def _common(keys: set[str]) -> str:
    """The longest text that all begin with."""
    first, last = min(keys), max(keys)
    size = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:size]


def _whole(spec: TransferSpec, key: str) -> str:
    """The key itself; on a disk the path from the root, since folders lie in each other."""
    return spec.target.at(key) if isinstance(spec.target, LocalFolder) else key
