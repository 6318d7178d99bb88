"""Forming batches out of a stream of listed objects: pure, so that it is tested without a database or a storage.

A batch is the unit that a worker takes, and that is taken up again after a kill. Objects of ``ALONE`` bytes or more are
a batch of their own, so that no worker holds two giants while another is idle. The rest go together, up to
``BATCH_OBJECTS`` or ``BATCH_BYTES``: each batch costs a workflow (about ten small database writes) and a place among
the few that a worker runs at once, which objects of a few hundred MiB should share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

BATCH_OBJECTS: Final = 1000
BATCH_BYTES: Final = 8 * 1024**3
ALONE: Final = 1024**3


class Sized(Protocol):
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Sized)


class Batcher(Generic[Item]):
    """Takes objects in any order and gives batches as soon as they are full. Holds at most one batch."""

    def __init__(self) -> None:
        self._open: list[Item] = []
        self._bytes = 0

    def add(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        for item in items:
            if item.size >= ALONE:
                yield [item]
                continue
            if self._open and (len(self._open) >= BATCH_OBJECTS or self._bytes + item.size > BATCH_BYTES):
                yield self._take()
            self._open.append(item)
            self._bytes += item.size

    def rest(self) -> Iterator[list[Item]]:
        if self._open:
            yield self._take()

    def _take(self) -> list[Item]:
        full, self._open, self._bytes = self._open, [], 0
        return full


def priority(items: Sequence[Sized]) -> int:
    """Place in the queue, lower is earlier: the biggest object first, so that no giant is left for the end.

    1 for objects of 2^50 bytes and more, one later for each halving.
    """
    biggest = max((item.size for item in items), default=0)
    return 1 + max(0, 50 - biggest.bit_length())
