"""Pages of lists: cursors, and what a list may be filtered by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, Generic, Literal, TypeVar, get_args

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import TransferState

T = TypeVar("T")

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ObjectSort = Literal["found", "key", "size", "time"]
OBJECT_CURSOR: Final = "^[ab][0-9]{1,18}$"
TRANSFER_CURSOR: Final = f"^[ab]{_UUID}$"


@cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    return {OBJECT_CURSOR: re.compile(OBJECT_CURSOR), TRANSFER_CURSOR: re.compile(TRANSFER_CURSOR)}


@frozen
class Cursor:
    """A place in a list: after the entry ``at``, or before it, where the page ends that lies before."""

    at: str
    backwards: bool = False

    def __str__(self) -> str:
        return f"{'b' if self.backwards else 'a'}{self.at}"

    @classmethod
    def parse(cls, text: str | None, pattern: str) -> Cursor | None:
        """Parses the text of a cursor by the pattern of its list; None for the start of the list.

        Raises:
            UsageError: the text is no cursor of this list.
        """
        if text is None:
            return None
        if not _patterns()[pattern].fullmatch(text):
            raise UsageError("The cursor is not one of this list; leave it out to begin at the start.").about("cursor")
        return cls(text[1:], text[0] == "b")


@frozen
class Page(Generic[T]):
    """Some entries of a list, in its order.

    A page may hold fewer entries than requested, or none, and still have a next one: a search reads a bounded number of
    rows at a time. None stands for the end of the list.
    """

    entries: Sequence[T]
    next: Cursor | None
    previous: Cursor | None


@frozen
class ObjectFilter:
    """A filter of the objects of a transfer. All conditions that are given have to hold.

    Attributes:
        state: of the object.
        text: part of the key at the source or at the target; upper and lower case are the same (of ASCII).
        prefix: start of the key at the source. The list is in the order of these keys then, else in that of planning.
    """

    state: str | None = None
    text: str | None = None
    prefix: str | None = None


@frozen
class ObjectOrder:
    """The order of a list of objects, and the place in it at which a page begins.

    Attributes:
        by: ``found`` as planning found them, ``key`` by the key at the source, ``size``, or ``time`` when they ended:
            those that have not come last. None: ``key`` with a prefix, else ``found``.
        descending: the other way round.
        offset: objects that a page without a cursor passes over.
    """

    by: ObjectSort | None = None
    descending: bool = False
    offset: int = 0


AS_FOUND: Final = ObjectOrder()


@frozen
class TransferFilter:
    """A filter of transfers, of lists and of acts on many. All conditions that are given have to hold.

    Attributes:
        states: any of these, of ``models.TransferState``.
        text: part of the id, the name, the source or the target; upper and lower case are the same (of ASCII).
        prefix: start of the source or of the target, as ``s3://bucket/run42/``.
        person: part of the name of the person who started it; upper and lower case are the same (of ASCII).
        created_by: start of that name, as ``ada`` of ``ada@host``.
        name: part of its name; upper and lower case are the same (of ASCII).
        labels: it has all of these, with this value or (None) with any.
        since, until: when it was created, in seconds since the epoch; ``until`` itself is left out.
    """

    states: tuple[str, ...] = ()
    text: str | None = None
    prefix: str | None = None
    person: str | None = None
    created_by: str | None = None
    name: str | None = None
    labels: tuple[tuple[str, str | None], ...] = ()
    since: float | None = None
    until: float | None = None

    def check(self) -> None:
        """Raise UsageError for a state that there is not."""
        for state in self.states:
            if state not in get_args(TransferState):
                known = ", ".join(get_args(TransferState))
                raise UsageError(f"--state '{state}' is not known; choose one of {known}.").about("state")

    def check_selection(self) -> None:
        """Raise UsageError for what must not select transfers that are changed: an unknown state, or an empty text.

        An empty text is most often a variable that is not set. In a list it selects all; nothing is changed by it.
        """
        self.check()
        for name in ("text", "prefix", "person", "created_by", "name"):
            if getattr(self, name) == "":
                raise UsageError(
                    f"The filter '{name}' is empty, and would select all; leave it out, or say what it selects."
                ).about(name)


ALL_TRANSFERS: Final = TransferFilter()


def cut_page(found: Sequence[T], cursor: Cursor | None, limit: int) -> tuple[list[T], bool, bool]:
    """A page of the results of a query with a limit of one entry more, in the direction of the cursor.

    Returns:
        The entries in the order of the list, and whether there are more after and before them.
    """
    more = len(found) > limit
    entries = list(found[:limit])
    if cursor is None:
        return entries, more, False
    if cursor.backwards:
        return entries[::-1], True, more
    return entries, more, True


def after_prefix(prefix: str) -> str | None:
    """The first text, by code points, after all that begin with ``prefix``; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Halves of characters are no text.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
