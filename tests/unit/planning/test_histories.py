"""Versions of objects: whole histories, oldest first, whatever the pages of the listing are."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.engine import buckets
from seqferry.model.errors import StorageError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import decision, versions
from seqferry.planning.decision import NO_RULES

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/", operation="history")
_ENGINE: Any = None


def _version(key: str, number: int, *, deleted: bool = False, etag: str | None = None) -> Any:
    return SimpleNamespace(
        key=key,
        size=0 if deleted else 1,
        etag=etag or f"{number:032x}",
        last_modified=float(number),
        version_id=f"v{number}",
        storage_class=None,
        is_delete_marker=deleted,
    )


def _listed(patch: pytest.MonkeyPatch, source: list[list[Any]], target: list[Any] = []) -> None:  # noqa: B006
    """Pages of the source as S3 lists them, the newest version of a key first; and those of the target."""
    patch.setattr(buckets, "list_versions", lambda _engine, place: iter(source if place.bucket == "from" else [target]))


@given(
    counts=st.lists(st.integers(1, 4), max_size=5),
    cuts=st.lists(st.integers(0, 20), max_size=6),
)
def test_an_object_is_whole_however_its_versions_are_paged(counts: list[int], cuts: list[int]) -> None:
    flat = [_version(f"run/{key}", number) for key, count in enumerate(counts) for number in range(count, 0, -1)]
    edges = [0, *sorted(min(cut, len(flat)) for cut in cuts), len(flat)]
    pages = [flat[first:end] for first, end in pairwise(edges)]

    with pytest.MonkeyPatch.context() as patch:
        _listed(patch, pages)
        found = [group for page in versions._objects(_ENGINE, _SPEC) for group in page]

    assert [[one.version_id for one in group] for group in found] == [
        [f"v{number}" for number in range(1, count + 1)] for count in counts
    ]
    assert [{one.key for one in group} for group in found] == [{f"run/{key}"} for key in range(len(counts))]


@pytest.mark.parametrize(("single", "keys"), [(False, ["run/a", "run/ab"]), (True, ["run/a"])])
def test_the_history_of_one_object_is_not_that_of_others_that_begin_alike(
    monkeypatch: pytest.MonkeyPatch, single: bool, keys: list[str]
) -> None:
    spec: Any = TransferSpec(S3Location("from", "run/a"), _SPEC.target, "run/", single=single, operation="history")
    _listed(monkeypatch, [[_version("run/a", 1), _version("run/ab", 1)]])

    assert [group[0].key for page in versions._objects(_ENGINE, spec) for group in page] == keys


@pytest.mark.parametrize(
    ("source", "target", "fates"),
    [
        ([2, 1], [], ["copy", "copy"]),
        ([2, 1], [1], ["skip", "copy"]),
        ([2, 1], [2, 1], ["skip", "skip"]),
        ([2, 1], [2], ["refuse", "refuse"]),
        ([2, 1], [3, 2, 1], ["refuse", "refuse"]),
        ([2, -9, 1], [1], ["skip", "leave_out", "copy"]),
        # Delete markers of the target are no versions, and another key there is another object.
        ([2, 1], [-9, 1], ["skip", "copy"]),
        ([-9], [], ["leave_out"]),
    ],
)
def test_versions_go_on_where_the_history_of_the_target_ends(
    monkeypatch: pytest.MonkeyPatch, source: list[int], target: list[int], fates: list[str]
) -> None:
    def listed(key: str, numbers: list[int]) -> list[Any]:
        return [_version(key, abs(number), deleted=number < 0) for number in numbers]

    _listed(monkeypatch, [listed("run/a", source)], [*listed("in/a", target), *listed("in/ab", [7])])

    [[[*found]]] = [page for page in versions.decide_histories(_ENGINE, _SPEC, NO_RULES) if page]

    assert [fate.decision.action for fate in found] == fates
    assert [fate.version.version_id for fate in found] == [f"v{abs(number)}" for number in reversed(source)]


def test_more_versions_of_one_object_than_a_batch_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "MAX_VERSIONS", 3)
    group = [_version("run/a", number) for number in range(4)]
    _listed(monkeypatch, [group])

    found = versions._decide_object(_ENGINE, _SPEC, group, NO_RULES)

    assert {fate.decision.code for fate in found} == {"TooManyVersions"}
    assert {fate.decision.action for fate in versions._decide_object(_ENGINE, _SPEC, group[1:], NO_RULES)} == {"copy"}


def test_more_versions_than_one_transfer_plans_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MAX_TOTAL_VERSIONS", 3)
    _listed(monkeypatch, [[_version("run/a", 2), _version("run/a", 1)], [_version("run/b", 2), _version("run/b", 1)]])

    with pytest.raises(StorageError, match="more than 3 versions"):
        list(versions.decide_histories(_ENGINE, _SPEC, NO_RULES))
