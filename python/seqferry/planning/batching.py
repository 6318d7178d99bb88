"""Forms batches from a stream of listed objects, without a database or a storage.

A batch is the unit that a worker takes, and that is resumed after a kill. Each costs a workflow (about ten small
database writes) and one of the few batches that a worker runs concurrently. Small objects share a batch. So do giants,
of ``GIANT`` bytes or more, but fewer: enough to use the bandwidth of S3 while some wait for their last part, and few
enough for several workers to share a job. Where several workers share it, the last batches are divided, so that they
end at about the same time (``GuidedSchedule``).

Batches of small objects grow with their number: a million of them take a third of the batches. None has more than a
64th of the objects that were found before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from seqferry.model.frozen import frozen

GIANT: Final = 1024**3

_BYTES_OF_REQUEST: Final = 128 * 1024**2
"""Bytes that one request of a large object copies, for an estimate of the requests of a batch."""

_LEAST_REQUESTS: Final = 100
"""Requests of the smallest part of a divided batch: a batch costs a worker some 20 ms, a request half a millisecond."""

_PARTS_OF_WORKER: Final = 2
"""Parts that each worker would get of what is left, if all had the size of the next one."""

_HELD_AT_MOST: Final = 16
"""Full batches of ``SMALL`` objects that are held until the listing ends: some 10 MB."""


@frozen
class Limit:
    """Limits of one batch; a single object always fits."""

    objects: int
    bytes: int


SMALL: Final = Limit(objects=1000, bytes=8 * 1024**3)
GIANTS: Final = Limit(objects=16, bytes=512 * 1024**3)

MAX_OBJECTS: Final = 4000
"""Objects of a batch at most, in a transfer of very many: 0.4 s of work, and some 4 MiB in memory."""

_SHARE: Final = 64
"""Part of the objects that were found before it which a batch has at most, beyond ``SMALL``."""


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
        self._grows = limit is None
        self._found = 0

    def add(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Add objects; returns the batches that are full."""
        self._found += len(items)
        if self._grows:
            self._small.max_objects = max(SMALL.objects, min(MAX_OBJECTS, self._found // _SHARE))
        for item in items:
            size = item.size
            group = self._giants if size >= GIANT else self._small
            if not group.has_room(size):
                yield group.take()
            group.items.append(item)
            group.bytes += size

    def rest(self) -> Iterator[list[Item]]:
        for group in (self._giants, self._small):
            if group.items:
                yield group.take()


class _Group(Generic[Item]):
    def __init__(self, limit: Limit) -> None:
        self.items: list[Item] = []
        self.bytes = 0
        self.max_objects = limit.objects
        self._max_bytes = limit.bytes

    def has_room(self, size: int) -> bool:
        fits = len(self.items) < self.max_objects and self.bytes + size <= self._max_bytes
        return fits or not self.items

    def take(self) -> list[Item]:
        full, self.items, self.bytes = self.items, [], 0
        return full


class GuidedSchedule(Generic[Item]):
    """Decides which full batches go on the queue now, and divides those that several workers share.

    While the listing goes on, the latest full batches are held as long as enough others wait on the queue. At its end
    they are divided into parts that get smaller: each has its share of what is left (guided self-scheduling). A batch
    that waiting workers need before is divided among them.
    """

    def __init__(self) -> None:
        self._held: list[list[Item]] = []

    def add(self, batch: list[Item]) -> None:
        self._held.append(batch)

    def take_due(self, workers: int, queued: int) -> list[list[Item]]:
        """Remove and return what goes on the queue before the listing ends. ``queued`` batches wait there."""
        if workers <= 1:
            return self._take_oldest(len(self._held))
        due = list[list[Item]]()
        if queued < workers:
            for batch in self._take_oldest(1):
                share = _requests_of(batch) / workers
                while batch:
                    due.append(_take_part(batch, share))
        most = min(_PARTS_OF_WORKER * workers, _HELD_AT_MOST)
        while len(self._held) > most or sum(map(len, self._held)) > most * SMALL.objects:
            due += self._take_oldest(1)
        return due

    def take_rest(self, workers: int) -> list[list[Item]]:
        """Remove and return all, when the listing has ended: those of the biggest objects first."""
        rest = self._take_oldest(len(self._held))
        if workers <= 1:
            return rest
        rest.sort(key=priority)
        left = sum(map(_requests_of, rest))
        due = list[list[Item]]()
        for batch in rest:
            while batch:
                part = _take_part(batch, left / (_PARTS_OF_WORKER * workers))
                left -= _requests_of(part)
                due.append(part)
        return due

    def _take_oldest(self, count: int) -> list[list[Item]]:
        count = max(count, 0)
        due, self._held = self._held[:count], self._held[count:]
        return due


def _take_part(batch: list[Item], share: float) -> list[Item]:
    """Remove and return the first objects of a batch: about ``share`` requests, such that it falls into equal parts."""
    left = _requests_of(batch)
    wanted = left / max(round(left / max(share, _LEAST_REQUESTS)), 1)
    count, taken = 0, 0.0
    for one in batch:
        requests = count_requests([one.size])
        if count and taken + requests / 2 > wanted:
            break
        count, taken = count + 1, taken + requests
    part = batch[:count]
    del batch[:count]
    return part


def _requests_of(batch: Iterable[SizedObject]) -> float:
    return count_requests(one.size for one in batch)


def count_requests(sizes: Iterable[int]) -> float:
    """About how many requests copy objects of these sizes."""
    return sum(1 + size / _BYTES_OF_REQUEST for size in sizes)


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
