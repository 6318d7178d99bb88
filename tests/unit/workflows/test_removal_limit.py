"""A removal goes no further than the number of objects that a person has seen."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from seqferry.db import bulk, objects
from seqferry.db.objects import PlannedObject
from seqferry.model.errors import StorageError
from seqferry.workflows.removal_limit import limit_to_expected
from seqferry.workflows.runtime import Runtime

_RUNTIME = cast("Runtime", SimpleNamespace(database=SimpleNamespace(read=nullcontext)))


def _object(name: str) -> PlannedObject:
    """An object of a key, or of a key and a version (``key@version``); one with a minus is left out."""
    key, _, version = name.removeprefix("-").partition("@")
    return PlannedObject(key, key, 1, "", 0.0, version or None, None, left_out=name.startswith("-"))


def _removed(pages: list[list[str]], expected: int | None, recorded: Collection[str]) -> list[list[str]]:
    """Keys of the pages that pass; the last is "refused" where more objects were found than were seen."""

    def known(_connection: object, _transfer_id: str, keys: set[str]) -> set[bulk.PlannedSource]:
        return {one.source for one in map(_object, recorded) if one.source_key in keys}

    passed: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "count_included", lambda *_: len(recorded))
        patch.setattr(bulk, "known_sources", known)
        found = iter([[_object(name) for name in page] for page in pages])
        try:
            for page in limit_to_expected(_RUNTIME, "t", found, expected=expected, noun="object"):
                passed.append([one.source_key for one in page])
        except StorageError as why:
            passed.append(["refused" if why.error_code == "AnotherNumber" and why.job_wide else why.message])
    return passed


@pytest.mark.parametrize(
    ("pages", "expected", "recorded", "passed"),
    [
        ([["a", "b"], ["c"]], None, (), [["a", "b"], ["c"]]),
        ([["a", "b"], ["c"]], 3, (), [["a", "b"], ["c"]]),
        ([["a", "b"], ["c"]], 4, (), [["a", "b"], ["c"]]),
        ([["a", "b"], ["c"]], 2, (), [["a", "b"], ["refused"]]),
        ([["a", "b", "c"]], 2, (), [["refused"]]),
        ([["a"]], 0, (), [["refused"]]),
        ([], 0, (), []),
        ([[]], 0, (), [[]]),
        # What is left out is not removed.
        ([["a", "-b", "-c"]], 1, (), [["a", "b", "c"]]),
        # Planned again after a kill, the same objects are not counted twice.
        ([["a", "b"], ["c"]], 3, ("a", "b", "c"), [["a", "b"], ["c"]]),
        ([["a", "b"], ["c"]], 3, ("a",), [["a", "b"], ["c"]]),
        # Removed by the run before, and another object was written since.
        ([["d"]], 3, ("a", "b", "c"), [["refused"]]),
        # Another version of a key on record is another object.
        ([["a@1", "a@2"]], 2, ("a@1",), [["a", "a"]]),
        ([["a@1", "a@3"]], 2, ("a@1", "a@2"), [["refused"]]),
    ],
)
def test_no_more_is_removed_than_was_seen(
    pages: list[list[str]], expected: int | None, recorded: tuple[str, ...], passed: list[list[str]]
) -> None:
    assert _removed(pages, expected, recorded) == passed
