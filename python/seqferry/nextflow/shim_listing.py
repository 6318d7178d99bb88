"""Listings of the shims, as ``ls`` of the other tools shows them: the objects and the common prefixes of one level.

Lines come page by page, so memory does not grow with the listing. One level costs one request for 1,000 entries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from seqferry.engine.engine import Engine, ObjectInfo
from seqferry.model.locations import S3Location


def entries(engine: Engine, place: S3Location, *, recursive: bool) -> Iterator[ObjectInfo | str]:
    """Objects directly at the prefix, and the names of folders with their last slash; all objects if ``recursive``."""
    if recursive:
        for page in engine.list(place):
            yield from page
        return
    start = place.key.rfind("/") + 1
    for objects, prefixes in engine.level(place):
        yield from (prefix[start:] for prefix in prefixes)
        yield from objects


def name_in_listing(key: str, prefix: str, *, recursive: bool) -> str:
    """The name of an object in the listing: the whole key if ``recursive``, else what follows the last slash."""
    return printable(key if recursive else key[prefix.rfind("/") + 1 :])


def format_time(seconds: float, form: str) -> str:
    """A time by the clock of this machine's zone, as the tools show it."""
    return time.strftime(form, time.localtime(seconds))


def printable(text: str) -> str:
    """``text`` on one line: a script looks for whole lines, and a key may hold a line's end."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode() for each in text
    )
