"""One level of a listing, as ``ls`` of other tools shows it: objects, and each "folder" below the prefix once.

Lines come as the listing brings them, in no order; memory grows with the number of folders at that level only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from seqferry.engine import ObjectInfo


def entries(pages: Iterable[list[ObjectInfo]], prefix: str, *, recursive: bool) -> Iterator[ObjectInfo | str]:
    """Objects directly at ``prefix``, and the names of folders with their last slash; all objects if ``recursive``."""
    seen: set[str] = set()
    start = prefix.rfind("/") + 1
    for page in pages:
        for each in page:
            head, slash, _ = each.key[len(prefix) :].partition("/")
            if recursive or not slash:
                yield each
            elif (folder := prefix[start:] + head + slash) not in seen:
                seen.add(folder)
                yield folder


def shown(key: str, prefix: str, *, recursive: bool) -> str:
    """The name of an object in the listing: the whole key if ``recursive``, else what follows the last slash."""
    return printable(key if recursive else key[prefix.rfind("/") + 1 :])


def moment(seconds: float, form: str) -> str:
    """A time by the clock of this machine's zone, as the tools show it."""
    return time.strftime(form, time.localtime(seconds))


def printable(text: str) -> str:
    """``text`` on one line: a script looks for whole lines, and a key may hold a line's end."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode() for each in text
    )
