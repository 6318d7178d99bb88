"""Rows of a dry run, and errors for objects that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.engine.lookups import FailedLookup
from seqferry.model.errors import NoMatchError, StorageError, UsageError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import listing
from seqferry.planning.decision import Decision, PredictedAction
from seqferry.planning.members import Member
from seqferry.planning.versions import VersionDecision
from seqferry.preflight import dry_run, reading

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/", pattern="run/*")


@pytest.mark.parametrize(
    ("decided", "seen", "row"),
    [
        (Decision("copy", "t"), PredictedAction("copy", "absent"), ("copy", "absent", None, False)),
        (Decision("copy", "t"), PredictedAction("skip", "it exists"), ("skip", "it exists", None, False)),
        (Decision("copy", "t"), PredictedAction("compare", "same size"), ("compare", "same size", None, False)),
        # What is at the target refuses it, or the object itself.
        (Decision("copy", "t"), PredictedAction("refuse", "it exists"), ("copy", "absent", "it exists", False)),
        (Decision("refuse", "t", "Code", "why"), None, ("copy", "absent", "why", False)),
        (Decision("leave_out", "t", "Code", "why"), None, ("copy", "absent", "why", True)),
    ],
)
def test_a_row_tells_what_would_be_done_or_why_not(decided: Decision, seen: Any, row: tuple[Any, ...]) -> None:
    found = dry_run._planned_copy("k", 5, decided, seen)

    assert (found.source_key, found.target_key, found.size) == ("k", "t", 5)
    assert (found.action, found.because, found.refusal, found.left_out) == row


@pytest.mark.parametrize(
    ("left_out", "seen", "reason", "is_left_out"),
    [
        (None, dry_run._ABSENT, "packed as a", False),
        (None, PredictedAction("copy", "it is overwritten"), "it is overwritten", False),
        (None, PredictedAction("refuse", "it exists"), "it exists", False),
        (("SpecialFile", "a pipe"), dry_run._ABSENT, "a pipe", True),
    ],
)
def test_a_member_is_told_by_its_name_in_the_archive(
    left_out: Any, seen: PredictedAction, reason: str, is_left_out: bool
) -> None:
    member = Member(SimpleNamespace(key="run/a", size=5), left_out)

    found = dry_run._member(_SPEC, member, "a.tar", seen)

    assert (found.target_key, found.reason, found.left_out) == ("a.tar", reason, is_left_out)


@pytest.mark.parametrize(
    ("version_id", "decided", "row"),
    [
        ("v1", Decision("copy", "t"), ("copy", "version v1", None)),
        (None, Decision("copy", "t"), ("copy", "version null", None)),
        ("v1", Decision("skip", "t"), ("skip", "version v1", None)),
        ("v1", Decision("refuse", "t", "OtherHistory", "why"), ("copy", "why", "why")),
    ],
)
def test_a_version_is_told_by_its_id(version_id: Any, decided: Decision, row: tuple[Any, ...]) -> None:
    version: Any = SimpleNamespace(key="k", size=5, version_id=version_id)

    found = dry_run._version(VersionDecision(version, decided))

    assert (found.action, found.reason, found.refusal) == row


@pytest.mark.parametrize(
    ("code", "is_missing"),
    [("NotFound", True), ("NoSuchKey", True), ("NoSuchVersion", True), ("NoSuchBucket", False), ("", False)],
)
def test_an_object_that_is_not_there_is_told_from_one_that_cannot_be_looked_at(code: str, is_missing: bool) -> None:
    assert reading.is_missing(StorageError("no", "object", code)) is is_missing


def _select(patch: pytest.MonkeyPatch, *keys: str) -> list[str]:
    page = [SimpleNamespace(key=key, size=1, last_modified=0.0) for key in keys]
    patch.setattr(listing, "list_objects", lambda *_: iter([page[:1], page[1:]]))
    patch.setattr(reading, "nearest_keys", lambda *_: [])
    engine: Any = SimpleNamespace(check_bucket=lambda _place: None)
    return reading.select_keys(engine, _SPEC)


def test_a_wildcard_selects_objects_in_the_order_of_their_bytes_and_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["run/ü", "run/b", "run/b/", "run/B", "other/a", "run/\udcff"]

    assert _select(monkeypatch, *keys) == ["run/B", "run/b", "run/ü", "run/\udcff"]


def test_a_wildcard_that_selects_nothing_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoMatchError, match=r"^Nothing matches s3://from/run/\*\. .*seqferry ls s3://from/$"):
        _select(monkeypatch, "run/b/")


def test_a_wildcard_that_selects_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 2)

    assert len(_select(monkeypatch, "run/a", "run/b")) == 2
    with pytest.raises(UsageError, match="matches more than 2 objects"):
        _select(monkeypatch, "run/a", "run/b", "run/c")


def test_a_named_object_that_is_not_there_ends_the_dry_run_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    single: Any = TransferSpec(S3Location("from", "a"), S3Location("to", "a"), single=True)
    denied = FailedLookup.of("a", StorageError("no", "person", "Forbidden"))
    decided = Decision("refuse", "a", "AccessDenied", "no")

    with pytest.raises(StorageError, match="no"):
        dry_run._plan_listed(None, single, denied, decided, None)
    assert dry_run._plan_listed(None, _SPEC, denied, decided, None).refusal == "no"
