"""Rows that operations plan: members of archives, removals, uploads, comparisons, histories and verifications."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.db import objects
from seqferry.db.objects import ExpectedContent, OpenObject, PlannedObject, WholeBatch
from seqferry.engine.lookups import FailedLookup
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import versions
from seqferry.planning.cleanup import StaleUpload
from seqferry.proof.target_verification import VerificationCounts
from seqferry.spec import pack, verification
from seqferry.workflows.operations import check, cleanup, history, remove, transfer, unpack, verify
from seqferry.workflows.operations import pack as packing

_PLACE = S3Location("from", "run/")
_SPEC: Any = TransferSpec(_PLACE, S3Location("to", "in/"), strip="run/")
_MIB = 1024 * 1024


def _member(key: str, size: int = 1, **more: Any) -> PlannedObject:
    return PlannedObject(key, "a.tar", size, "", 0.0, None, None, **more)


# --- pack -------------------------------------------------------------------------------------------------------------


def _pack_spec(split: int | None = None) -> Any:
    options = {} if split is None else {pack.SPLIT: split}
    return TransferSpec(_PLACE, S3Location("to", "a.tar"), strip="run/", operation="pack", options=options)


def test_an_archive_without_shards_has_all_members_and_what_is_left_out() -> None:
    found, left_out = [_member("run/a"), _member("run/b")], [_member("run/pipe", left_out=True)]

    assert list(packing._archives(_pack_spec(), found, left_out)) == [[*found, *left_out]]
    assert list(packing._archives(_pack_spec(), [], left_out)) == [left_out]
    assert list(packing._archives(_pack_spec(), [], [])) == []


@given(st.lists(st.integers(0, 2 * _MIB), min_size=1, max_size=12), st.integers(0, 2))
def test_each_member_is_in_one_shard_in_its_order_and_what_is_left_out_in_the_first(
    sizes: list[int], left: int
) -> None:
    found = [_member(f"run/{number:03d}", size) for number, size in enumerate(sizes)]
    left_out = [_member(f"run/pipe{number}", left_out=True) for number in range(left)]

    archives = list(packing._archives(_pack_spec(_MIB), list(found), left_out))

    members = [[one for one in archive if not one.left_out] for archive in archives]
    assert [one.source_key for archive in members for one in archive] == [one.source_key for one in found]
    assert all(members)
    assert [one for archive in archives for one in archive if one.left_out] == left_out
    assert archives[0][len(members[0]) :] == left_out
    keys = [{one.target_key for one in archive} for archive in members]
    assert keys == [{pack.shard_key(_pack_spec(_MIB), number)} for number in range(len(archives))]


# --- unpack -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "is_one_batch"),
    [
        ("a.tar", False),
        ("a.tar.gz", True),
        ("run/A.TGZ", True),
        ("a.tar.zst", True),
        ("a.tzst", True),
        ("a.tar.bgz", True),
        ("a.gz", False),
        ("a.tar.gz/b.tar", False),
        ("", False),
    ],
)
def test_a_compressed_archive_is_one_batch_since_each_reads_it_from_the_start(key: str, is_one_batch: bool) -> None:
    limit = unpack.OPERATION.batch_limit(TransferSpec(S3Location("from", key), S3Location("to")))

    assert limit == (unpack.COMPRESSED if is_one_batch else None)


# --- remove, cleanup, check -------------------------------------------------------------------------------------------


def test_what_is_not_there_counts_as_removed_and_what_cannot_be_looked_at_fails() -> None:
    absent = remove._plan_absent(FailedLookup.absent(_PLACE, "run/a"))
    denied = remove._plan_absent(FailedLookup.of("run/b", StorageError("no", "person", "Forbidden", "HeadObject")))

    assert (absent.source_key, absent.refusal) == ("run/a", None)
    assert denied.refusal == ("AccessDenied", "no")
    assert (denied.error_class, denied.operation) == ("person", "HeadObject")


@pytest.mark.parametrize("kept", [None, "of an unfinished transfer"])
def test_an_upload_in_use_is_left_out_and_any_other_is_aborted(kept: str | None) -> None:
    planned = cleanup._plan_object(StaleUpload("run/a", "upload-1", 5.0, 17, kept))

    assert planned.source == ("run/a", "", "upload-1", "")
    assert (planned.size, planned.last_modified) == (17, 5.0)
    assert planned.left_out is (kept is not None)
    assert (planned.refusal is not None) is planned.left_out


@pytest.mark.parametrize(("there", "wanted"), [("in/a", "run/a"), ("in/in/ü", "run/in/ü"), ("in/", "run/")])
def test_an_object_that_only_the_target_has_is_named_as_the_source_would(there: str, wanted: str) -> None:
    planned = check._extra(_SPEC, there, "etag")

    assert (planned.source_key, planned.target_key, planned.etag, planned.target_etag) == (wanted, there, "", "etag")
    assert planned.refusal is not None
    assert not planned.left_out
    assert f"s3://from/{wanted}" in planned.refusal[1]


# --- transfer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [None, ("Code", "why")])
def test_a_planned_object_comes_back_from_the_values_of_its_fields(refusal: tuple[str, str] | None) -> None:
    planned = _member("k", 5, refusal=refusal)
    values = [getattr(planned, name) for name in PlannedObject.__slots__]

    found = transfer.restore_planned(
        [list(one) if isinstance(one, tuple) else one for one in values]
    )  # as JSON has tuples

    assert found == planned
    assert transfer._names(found) == ("k", "", None if refusal else "a.tar")


# --- history ----------------------------------------------------------------------------------------------------------


def _fate(key: str, number: int) -> Any:
    version = SimpleNamespace(key=key, size=number, etag="e", last_modified=0.0, version_id=f"v{number}")
    version.storage_class = None
    return SimpleNamespace(version=version, decision=versions.Decision("copy", f"in/{key}"))


@given(st.lists(st.lists(st.integers(1, 5), max_size=3), max_size=3))
def test_versions_of_one_object_stay_in_one_batch_in_their_order(sizes: list[list[int]]) -> None:
    pages = [
        [[_fate(f"{number} {place}", each) for each in range(size)] for place, size in enumerate(page)]
        for number, page in enumerate(sizes)
    ]
    runtime: Any = SimpleNamespace(engine=None, key_rules=lambda _id: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "decide_histories", lambda *_: iter(pages))
        patch.setattr(history, "_BATCH", 6)
        found = list(history.OPERATION.find(runtime, _SPEC, None, transfer_id="t", target_absent=False))

    batches = [[(one.source_key, one.version_id) for one in batch] for batch in found if batch]
    assert [one for batch in batches for one in batch] == [
        (fate.version.key, fate.version.version_id) for page in pages for group in page for fate in group
    ]
    assert all(len(batch) <= 6 for batch in batches)
    of_keys = [{key for key, _ in batch} for batch in batches]
    assert sum(map(len, of_keys)) == len(set().union(*of_keys))


def _row(number: int, key: str, etag: str) -> OpenObject:
    return OpenObject(number, key, f"in/{key}", 1, etag, f"v{number}", None, None, None)


_E = ["d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72", "0cc175b9c0f1b6a831c399e269772661"]


@pytest.mark.parametrize(
    ("there", "left", "found"),
    [
        ([], [1, 2, 3], []),
        ([_E[0]], [1, 2, 3], [1]),
        ([_E[0], _E[1]], [2, 3], [2]),
        (_E, [1, 2, 3], [1, 2, 3]),
        # Not the start of the history: another has written there.
        ([_E[1]], [1, 2, 3], []),
        ([_E[0], _E[2]], [1, 2, 3], [1]),
        ([_E[0], _E[0], _E[2]], [1, 2, 3], [1]),
        ([*_E, _E[0]], [3], [3]),
    ],
)
def test_versions_that_a_killed_run_has_written_are_the_start_of_both_histories(
    monkeypatch: pytest.MonkeyPatch, there: list[str], left: list[int], found: list[int]
) -> None:
    rows = [_row(number, "k", etag) for number, etag in enumerate(_E, start=1)]
    at_target = [SimpleNamespace(size=1, etag=etag, version_id=f"t{number}") for number, etag in enumerate(there, 1)]
    monkeypatch.setattr(objects, "whole_batch", lambda *_: WholeBatch(rows, None))
    monkeypatch.setattr(versions, "list_target_versions", lambda *_: at_target)
    monkeypatch.setattr(history, "FoundCopy", SimpleNamespace)
    runtime: Any = SimpleNamespace(engine=None, database=SimpleNamespace(read=nullcontext))
    work: Any = SimpleNamespace(transfer_id="t", items=[row for row in rows if row.id in left])

    written = history._find_written(runtime, _SPEC, work)

    assert {number: one.version_id for number, one in written.items()} == {number: f"t{number}" for number in found}


# --- verify -----------------------------------------------------------------------------------------------------------


def _recorded(**more: Any) -> Any:
    row = {"source_key": "run/a", "target_key": "in/a", "size": 9, "etag": "e", "last_modified": 1_500_000}
    row |= {"version_id": "", "member_place": "", "storage_class": None, **dict.fromkeys(ExpectedContent._fields)}
    return row | more


@pytest.mark.parametrize(("is_archive", "size"), [(False, 9), (True, 0)])
def test_an_object_is_verified_against_what_is_on_record(is_archive: bool, size: int) -> None:
    planned = verify._plan_object(_recorded(target_etag="t", version_id="v1"), is_archive=is_archive)

    assert (planned.size, planned.last_modified, planned.version_id) == (size, 1.5, "v1")
    assert planned.expected == ExpectedContent("t", None, None, None)
    assert verify._plan_object(_recorded(), is_archive=False).version_id is None


@pytest.mark.parametrize(
    ("content", "unreadable", "facts"),
    [
        (False, 0, {"how": "head"}),
        (False, 2, {"how": "head", "unreadable": 2}),
        (True, 0, {"how": "content", "unreadable": 0, "content": 4}),
    ],
)
def test_the_result_of_a_verification_says_what_was_read(content: bool, unreadable: int, facts: dict[str, Any]) -> None:
    options = {verification.CONTENT: True} if content else {}
    spec: Any = TransferSpec(_PLACE, _PLACE, operation="verify", options=options)
    names = {"objects": 9, "same": 5, "missing": 1, "changed": 1, "unreadable": unreadable, "content": 4}
    counts = cast("VerificationCounts", SimpleNamespace(**names))

    found = verify._facts("t", spec, counts)

    assert found == {"verification": "t", "objects": 9, "same": 5, "missing": 1, "changed": 1} | facts


def test_objects_are_verified_by_the_place_where_they_are() -> None:
    rows = [_row(number, f"k{number}", "e") for number in range(4)]
    places: Any = SimpleNamespace(find_target=lambda key: LocalFolder("/even" if int(key[1:]) % 2 == 0 else "/odd"))

    found = {place.path: [one.id for one in items] for place, items in verify._by_place(places, rows)}

    assert found == {"/even": [0, 2], "/odd": [1, 3]}
