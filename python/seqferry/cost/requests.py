"""Requests that moving an object asks of S3: parts and what is around them, by the rules of the engine.

The rules are those of ``crates/transfer/src/limits.rs``.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

_MIB: Final = 1024 * 1024
COPY_THRESHOLD: Final = 128 * _MIB
COPY_PART: Final = 128 * _MIB
STREAM_THRESHOLD: Final = 16 * _MIB
STREAM_PART: Final = 8 * _MIB
MOST_PARTS: Final = 10_000
ARCHIVE_PART: Final = 16 * _MIB
"""Size of a part of an archive that is assembled from small members."""
ARCHIVE_COPY_PART: Final = 512 * _MIB
LEAST_PART: Final = 5 * _MIB
"""Of an upload, but for the last one: as much of a large member goes into the assembled part before it."""
SHARED_MEMBER: Final = 4 * _MIB
"""Neighbours in an archive up to this size share reads of ``SHARED_READ``."""
SHARED_READ: Final = 8 * _MIB
ARCHIVE_LOOKS: Final = 20
"""Reads of an archive before its first member, at most: its index or its end, and the headers of some members."""
PAGE: Final = 1000
"""Keys of a page of a listing."""

WRITES: Final = frozenset(
    {"ListObjectsV2", "CopyObject", "PutObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"}
    | {"CompleteMultipartUpload"}
)
"""Billed as writes; all else but what is free is a read."""
FREE: Final = frozenset({"DeleteObject", "DeleteObjects", "AbortMultipartUpload"})


def count_parts(size: int, *, inside: bool, part_size: int | None = None, threshold: int | None = None) -> int:
    """Parts that an object is moved in; 1 where it is moved in one request."""
    if threshold is None:
        threshold = COPY_THRESHOLD if inside else STREAM_THRESHOLD
    if size <= threshold:
        return 1
    part = part_size or (COPY_PART if inside else STREAM_PART)
    return -(-size // max(part, -(-size // MOST_PARTS)))


def upload_requests(parts: int, *, inside: bool) -> Counter[str]:
    """Requests to the target of one object in so many parts."""
    if parts == 1:
        return Counter({"CopyObject" if inside else "PutObject": 1})
    return multipart_requests(parts, inside=inside)


def multipart_requests(parts: int, *, inside: bool) -> Counter[str]:
    """Requests of an upload in so many parts, also of one."""
    return Counter(
        {
            "CreateMultipartUpload": 1,
            "UploadPartCopy" if inside else "UploadPart": parts,
            "CompleteMultipartUpload": 1,
            "HeadObject": 1 + inside,
        }
    )


def price_name(operation: str) -> str | None:
    """Name of the price of a request of S3 Standard; None where it is free."""
    if operation in FREE:
        return None
    return "s3-write" if operation in WRITES else "s3-read"
