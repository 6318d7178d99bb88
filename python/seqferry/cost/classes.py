"""Storage classes of S3: names, and the rules that a price alone does not tell."""

from __future__ import annotations

from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen

_KB: Final = 1024


@frozen
class StorageClass:
    """A storage class.

    Attributes:
        prefix: what the names of its prices begin with.
        least_days: days that are paid at least.
        least_bytes: bytes that are paid at least for each object.
        overhead: bytes of index and name that are paid beside each object, at its own price.
        overhead_standard: the same, at the price of Standard.
        read: name of the price of bytes that are read, after the prefix; None where that is free.
        restore: name of the price of a restore, which reading needs, after the prefix.
        monitored: objects of more than 128 KB are watched, at a price.
        upload: name of the price of bytes that are written, after the prefix.
    """

    name: str
    prefix: str
    least_days: int = 0
    least_bytes: int = 0
    overhead: int = 0
    overhead_standard: int = 0
    read: str | None = None
    restore: str | None = None
    upload: str | None = None
    monitored: bool = False


def _archive(name: str, prefix: str, least_days: int) -> StorageClass:
    return StorageClass(
        name,
        prefix,
        least_days,
        overhead=32 * _KB,
        overhead_standard=8 * _KB,
        read="retrieval",
        restore="restore",
    )


MONITORED_ABOVE: Final = 128 * _KB
CLASSES: Final = {
    each.name: each
    for each in (
        StorageClass("STANDARD", "s3"),
        StorageClass("INTELLIGENT_TIERING", "s3-intelligent-tiering", monitored=True),
        StorageClass("STANDARD_IA", "s3-standard-ia", 30, 128 * _KB, read="retrieval"),
        StorageClass("ONEZONE_IA", "s3-onezone-ia", 30, 128 * _KB, read="retrieval"),
        StorageClass("GLACIER_IR", "s3-glacier-ir", 90, 128 * _KB, read="retrieval"),
        _archive("GLACIER", "s3-glacier", 90),
        _archive("DEEP_ARCHIVE", "s3-deep-archive", 180),
        StorageClass("EXPRESS_ONEZONE", "s3-express-onezone", read="retrieval", upload="upload"),
    )
}
"""By https://aws.amazon.com/s3/storage-classes/ and https://aws.amazon.com/s3/pricing/, read in 2026."""


def find_class(written: str, named: str) -> StorageClass:
    """The class of this name, in any case, with dashes or without.

    Raises:
        UsageError: no storage class has this name.
    """
    found = CLASSES.get(written.strip().upper().replace("-", "_"))
    if found is None:
        raise UsageError(f"{named}: there is no storage class {written!r}; choose one of {', '.join(CLASSES)}.")
    return found
