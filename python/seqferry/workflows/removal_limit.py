"""Limit of a removal: the number of objects that the user has confirmed.

The first listing counts them before anything is removed. Invariant: however often a removal is planned again, after a
kill, a pause, or for the queue, no more objects are removed than that.
"""

from __future__ import annotations

from collections.abc import Iterator

from seqferry.db import bulk, objects
from seqferry.db.objects import PlannedObject
from seqferry.model.errors import StorageError
from seqferry.model.formatting import count
from seqferry.model.messages.steps import COMMAND_LINE
from seqferry.workflows.runtime import Runtime


def limit_to_expected(
    runtime: Runtime, transfer_id: str, pages: Iterator[list[PlannedObject]], *, expected: int | None, noun: str
) -> Iterator[list[PlannedObject]]:
    """The same pages, as long as they and the objects on record are no more than ``expected``.

    Args:
        expected: the confirmed number; None: no limit.
        noun: singular name of an object, for the message.

    Raises:
        StorageError: there are more. Objects on record are removed; new ones stay.
    """
    if expected is None:
        yield from pages
        return
    with runtime.database.read() as connection:
        seen = objects.count_included(connection, transfer_id)
    for page in pages:
        with runtime.database.read() as connection:
            known = bulk.known_sources(connection, transfer_id, {one.source_key for one in page})
        seen += sum(not one.left_out and one.source not in known for one in page)
        if seen > expected:
            why = f"More than the {count(expected, noun)} that were expected would be removed by now."
            raise StorageError(f"{why} {COMMAND_LINE.text('check_rest')}", "person", "AnotherNumber", "plan", True)
        yield page
