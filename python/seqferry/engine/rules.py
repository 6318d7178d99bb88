"""Rules of the engine that need no storage: names as files, equal objects, the cut of archives."""

from __future__ import annotations

from typing import Final

from seqferry import _native
from seqferry.model.errors import StorageError


def path_refusal(key: str, size: int) -> tuple[str, str] | None:
    """Refusal of this key as a file below a folder, as code and cause with advice; None when a file can have it."""
    try:
        return _native.path_refusal(key, size)
    except UnicodeEncodeError:
        # Surrogates stand for bytes that are not UTF-8. The answer does not depend on them.
        return _native.path_refusal(key.encode("utf-8", "replace").decode(), size)


equal_as_listed: Final = _native.equal_as_listed


def pack_shards(names: list[str], sizes: list[int], shard_size: int) -> list[int]:
    """Cut members into archives of at most ``shard_size`` bytes: the ordinals at which shards end.

    Raises:
        StorageError: the members have more bytes than any tar can hold.
    """
    try:
        return _native.pack_shards(names, sizes, shard_size)
    except ValueError as why:
        raise StorageError(f"{why}.", "object", "ArchiveTooLarge", "plan", True) from None
