"""Forms batches from a stream of listed objects, without a database or a storage.

A batch is the unit that a worker takes, and that is resumed after a kill. Each costs a workflow (about ten small
database writes) and one of the few batches that a worker runs concurrently. Small objects share a batch. So do giants,
of ``GIANT`` bytes or more, but fewer: enough to use the bandwidth of S3 while some wait for their last part, and few
enough for several workers to share a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from seqferry.model.frozen import frozen

GIANT: Final = 1024**3


@frozen
class Limit:
    """Limits of one batch; a single object always fits."""

    objects: int
    bytes: int


SMALL: Final = Limit(objects=1000, bytes=8 * 1024**3)
GIANTS: Final = Limit(objects=16, bytes=512 * 1024**3)


class SizedObject(Protocol):
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=SizedObject)


class Batcher(Generic[Item]):
    """Collects objects in any order into batches. Holds at most one batch of each kind until it is full."""

    def __init__(self, limit: Limit | None = None) -> None:
        """Args: ``limit`` holds for small objects and giants alike; None: the usual ones."""
        self._small = _Group[Item](limit or SMALL)
        self._giants = _Group[Item](limit or GIANTS)

    def add(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        for item in items:
            group = self._giants if item.size >= GIANT else self._small
            if not group.has_room(item):
                yield group.take()
            group.add(item)

    def rest(self) -> Iterator[list[Item]]:
        for group in (self._giants, self._small):
            if group.items:
                yield group.take()


class _Group(Generic[Item]):
    def __init__(self, limit: Limit) -> None:
        self.items: list[Item] = []
        self._limit = limit
        self._bytes = 0

    def has_room(self, item: Item) -> bool:
        fits = len(self.items) < self._limit.objects and self._bytes + item.size <= self._limit.bytes
        return fits or not self.items

    def add(self, item: Item) -> None:
        self.items.append(item)
        self._bytes += item.size

    def take(self) -> list[Item]:
        full, self.items, self._bytes = self.items, [], 0
        return full


def is_small(items: Sequence[SizedObject]) -> bool:
    """True for a batch within ``SMALL`` and without a giant: alone in its transfer it needs no place on the queue."""
    size = sum(item.size for item in items)
    return len(items) <= SMALL.objects and size <= SMALL.bytes and biggest(items) < GIANT


def priority(items: Sequence[SizedObject]) -> int:
    """Place in the queue, lower is earlier: the biggest object first, so that no giant is left for the end.

    1 for objects of 2^50 bytes and more, one later for each halving.
    """
    return priority_of(biggest(items))


def biggest(items: Sequence[SizedObject]) -> int:
    """The size of the biggest object; 0 without objects."""
    return max((item.size for item in items), default=0)


def priority_of(biggest: int) -> int:
    """``priority`` of a batch whose biggest object has ``biggest`` bytes."""
    return 1 + max(0, 50 - biggest.bit_length())
