"""Archived objects: which are asked for, and how often the storage is asked whether they are ready."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import listing
from seqferry.workflows import restore
from seqferry.workflows.runtime import Runtime

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")


class _Storage:
    """A storage in which archived objects are ready after so many looks; it notes what it was asked."""

    def __init__(self, ready_after: int) -> None:
        self._left = ready_after
        self.asked: list[int] = []
        self.terms: set[tuple[int, str]] = set()

    def restore(self, _place: Any, keys: list[str], *, days: int, tier: str) -> list[bool]:
        self.asked.append(len(keys))
        self.terms.add((days, tier))
        is_ready = self._left <= 0
        self._left -= 1
        return [is_ready] * len(keys)


def _restore(
    patch: pytest.MonkeyPatch, storage: _Storage, keys: int = 3, spec: Any = _SPEC, waits: int = 1000
) -> list[float]:
    """The pauses between looks; the transfer is stopped after so many."""
    pauses: list[float] = []

    def wait(_runtime: Any, _transfer_id: str, seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < waits

    pages = [[f"k{number}" for number in range(keys)]] if keys else []
    patch.setattr(restore, "_find_archived", lambda *_: iter(pages))
    patch.setattr(restore, "_wait", wait)
    patch.setattr(restore, "_report", lambda *_, **__: None)
    restore.restore(cast("Runtime", SimpleNamespace(engine=storage, check=lambda: None)), "t", spec)
    return pauses


@pytest.mark.parametrize(
    ("looks", "pauses"),
    [
        (0, []),
        (1, [1.0]),
        (4, [1.0, 2.0, 4.0, 8.0]),
        (13, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 600.0, 600.0, 600.0]),
    ],
)
def test_pauses_between_looks_double_up_to_ten_minutes(
    monkeypatch: pytest.MonkeyPatch, looks: int, pauses: list[float]
) -> None:
    assert _restore(monkeypatch, _Storage(looks)) == pauses


def test_some_of_many_are_looked_at_and_all_again_when_these_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = _Storage(2)
    _restore(monkeypatch, storage, keys=250)

    assert storage.asked == [250, restore._WATCHED, restore._WATCHED, 250]


def test_a_transfer_that_is_stopped_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = _Storage(1000)

    assert len(_restore(monkeypatch, storage, waits=3)) == 3
    assert len(storage.asked) == 3


def test_a_source_without_archived_objects_is_not_asked_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = _Storage(0)

    assert _restore(monkeypatch, storage, keys=0) == []
    assert storage.asked == []


@pytest.mark.parametrize(
    ("given", "terms"),
    [({}, (7, "Standard")), ({"restore_days": 1, "restore_tier": "Bulk"}, (1, "Bulk"))],
)
def test_copies_are_asked_for_as_the_spec_says(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], terms: tuple[int, str]
) -> None:
    storage = _Storage(0)
    _restore(monkeypatch, storage, spec=replace(_SPEC, selection=replace(_SPEC.selection, restore=True, **given)))

    assert storage.terms == {terms}


@pytest.mark.parametrize(
    ("found", "sizes"), [([], []), ([3], [3]), ([400, 400, 400, 1], [1200, 1]), ([999, 1, 0], [1000])]
)
def test_archived_objects_are_asked_for_a_thousand_at_a_time(
    monkeypatch: pytest.MonkeyPatch, found: list[int], sizes: list[int]
) -> None:
    classes = ("GLACIER", "DEEP_ARCHIVE", "INTELLIGENT_TIERING")
    pages = [
        [SimpleNamespace(key="k", size=1, last_modified=0.0, storage_class=classes[each % 3]) for each in range(count)]
        + [SimpleNamespace(key="k", size=1, last_modified=0.0, storage_class=each) for each in ("STANDARD", None)]
        for count in found
    ]
    monkeypatch.setattr(listing, "list_objects", lambda *_: iter(pages))
    runtime = cast("Runtime", SimpleNamespace(engine=None, check=lambda: None))

    assert [len(keys) for keys in restore._find_archived(runtime, _SPEC)] == sizes
