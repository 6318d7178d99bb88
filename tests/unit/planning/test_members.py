"""Members of an archive that is made: which objects become one, and what forbids it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.engine.lookups import FailedLookup
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import listing, members
from seqferry.planning.decision import NO_RULES
from seqferry.spec import pack

_PLACE = S3Location("from", "run/")
_OPTIONS = {pack.SPLIT: 1024 * 1024}
_SPEC: Any = TransferSpec(_PLACE, S3Location("to", "a.tar"), strip="run/", operation="pack", options=_OPTIONS)


def _info(key: str, size: int = 1, refusal: tuple[str, str] | None = None) -> Any:
    return SimpleNamespace(key=key, size=size, etag="e", last_modified=0.0, version_id=None, refusal=refusal)


def _members(patch: pytest.MonkeyPatch, *pages: list[Any]) -> list[tuple[str, bool]]:
    """Keys, each with whether it is left out."""
    patch.setattr(listing, "list_objects", lambda *_: iter(pages))
    engine: Any = None
    found = members.members(engine, _SPEC, NO_RULES)
    return [(one.found.key, one.left_out is not None) for page in found for one in page]


def test_objects_become_members_but_for_the_marker_of_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [[_info("run/", 0), _info("run/b")], [], [_info("run/sub/", 0), _info("run/ü")]]

    assert _members(monkeypatch, *pages) == [("run/b", False), ("run/sub/", False), ("run/ü", False)]


def test_what_is_no_file_is_left_out_and_forbids_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _members(monkeypatch, [_info("run/pipe", refusal=("SpecialFile", "a pipe")), _info("run/a")])

    assert found == [("run/pipe", True), ("run/a", False)]


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ([_info("run/a", refusal=("Unreadable", "no"))], "s3://from/run/a: no. Nothing was written."),
        ([FailedLookup.absent(_PLACE, "run/a")], "s3://from/run/a is not there. Nothing was written."),
        (
            [FailedLookup.of("run/a", StorageError("HeadObject: denied.", "person", "Forbidden"))],
            "members: HeadObject: denied. Nothing was written.",
        ),
        (
            [_info(f"run/{name}", refusal=("Unreadable", "no")) for name in "abcde"],
            "s3://from/run/a: no; s3://from/run/b: no; s3://from/run/c: no and 2 more. Nothing was written.",
        ),
    ],
)
def test_an_archive_that_would_lack_a_member_is_not_made(
    monkeypatch: pytest.MonkeyPatch, refused: list[Any], said: str
) -> None:
    with pytest.raises(StorageError) as forbidden:
        _members(monkeypatch, [_info("run/z")], refused)

    assert forbidden.value.error_code == "MemberRefused"
    assert forbidden.value.message.endswith(said)
    assert forbidden.value.job_wide


def test_more_members_than_planning_can_sort_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST", 3)

    assert len(_members(monkeypatch, [_info("run/a"), _info("run/b")], [_info("run/c")])) == 3
    with pytest.raises(StorageError, match="more than 3 objects lie there"):
        _members(monkeypatch, [_info("run/a"), _info("run/b")], [_info("run/c"), _info("run/d")])


_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\udcff", "\udc80x", "a\udcfe"]
)


@given(_KEYS, _KEYS)
def test_members_are_in_the_order_of_their_bytes(one: str, other: str) -> None:
    def of_disk(key: str) -> bytes:
        return key.encode("utf-8", "surrogateescape")

    assert (members.order(one) < members.order(other)) == (of_disk(one) < of_disk(other))
    assert (members.order(one) == members.order(other)) == (one == other)


@pytest.mark.parametrize(
    ("target", "there", "is_refused"),
    [
        (_SPEC.target, _info("a-00002.tar"), True),
        (_SPEC.target, FailedLookup.absent(_SPEC.target, "x"), False),
        # Writing may be allowed where looking is not.
        (_SPEC.target, FailedLookup.of("x", StorageError("no", "person", "Forbidden")), False),
        (LocalFolder("/no/such/folder"), None, False),
    ],
)
def test_a_later_shard_of_an_earlier_pack_is_not_left_behind(target: Any, there: Any, is_refused: bool) -> None:
    spec: Any = TransferSpec(_PLACE, target, strip="run/", operation="pack", options=_OPTIONS)
    asked: list[str] = []

    def look(_place: Any, keys: list[str]) -> list[Any]:
        asked.extend(keys)
        return [there]

    engine: Any = SimpleNamespace(head_each=look)
    if is_refused:
        with pytest.raises(StorageError, match="is of an earlier pack") as refused:
            members.refuse_later_shards(engine, spec, 2)
        assert refused.value.error_code == "LaterShards"
    else:
        members.refuse_later_shards(engine, spec, 2)
    assert asked == ([] if there is None else [pack.shard_key(spec, 2)])
    members.refuse_later_shards(engine, spec, 0)
