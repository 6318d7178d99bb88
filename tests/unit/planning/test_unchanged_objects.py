"""What shows that an object has not changed since an earlier transfer, side by side, without a storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from seqferry.db.earlier_objects import EarlierObject
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.planning import decision, unchanged
from seqferry.planning.unchanged import Recorded

PLAIN: Final = "d41d8cd98f00b204e9800998ecf8427e"
OTHER: Final = "900150983cd24fb0d6963f7d28e17f72"
PARTS: Final = f"{OTHER}-2"
FILE: Final = "3.6b0cf60f.1259e98b.9f4a04"
SINCE: Final = 1000.0
"""The earlier transfer began; its object took from 1010 to 1011."""

BUCKET: Final = S3Location("bucket", "run/")
FOLDER: Final = LocalFolder("/data")
WAYS: Final[dict[str, tuple[Location, Location]]] = {
    "up": (FOLDER, BUCKET),
    "down": (BUCKET, FOLDER),
    "between": (BUCKET, replace(BUCKET, bucket="other")),
}


@dataclass(frozen=True)
class Side:
    key: str
    etag: str
    last_modified: float
    size: int = 3
    version_id: str | None = None
    refusal: tuple[str, str] | None = None


def spec_of(way: str, **options: Any) -> ResolvedSpec:
    source, target = WAYS[way]
    return ResolvedSpec.of(TransferSpec(source, target, strip=source.key).with_options(**options))


def decide(way: str, state: str, **changed: Any) -> str | None:
    """Verification by which the object is skipped that is as on record, but for what is ``changed``."""
    source_etag, target_etag = FILE if way == "up" else PLAIN, FILE if way == "down" else PARTS
    # A target that was compared is old; one that was written is as old as the copy.
    of_target = 1010.5 if state == "done" else 500.0
    file_changed = {"up": 400.0, "down": of_target, "between": None}[way]
    spec = spec_of(way)
    found = Side(f"{spec.strip}a", source_etag, 400.0)
    there = Side(f"{spec.target.key}a", target_etag, of_target)
    earlier = EarlierObject(
        source_key=found.key,
        target_key=there.key,
        size=3,
        etag=source_etag,
        last_modified=400.0,
        # Of a file that was written, the one that was there before is on record.
        file_changed=300.0 if (way, state) == ("down", "done") else file_changed,
        state=state,
        verified="checksum",
        target_etag=target_etag,
        started_at=1010.0,
        ended_at=1011.0,
        since=SINCE,
    )
    sides = {"source": found, "target": there}
    for name, value in changed.items():
        side, _, field = name.partition("__")
        if side in sides:
            sides[side] = replace(sides[side], **{field: value})
        elif side == "record":
            earlier = earlier._replace(**{field: value})
        else:
            assert name == "ctime"
            file_changed = value
    decided = decision.Decider(spec).decide(sides["source"], sides["target"], Recorded(earlier, file_changed))
    assert (decided.action == "skip") == (decided.verified is not None)
    return decided.verified


@pytest.mark.parametrize("state", ["done", "skipped"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_as_on_record_is_skipped_with_the_verification_on_record(way: str, state: str) -> None:
    assert decide(way, state) == "checksum"
    assert decide(way, state, record__verified="time") == "time"


@pytest.mark.parametrize("state", ["done", "skipped"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "changed",
    [
        {"source__etag": OTHER},
        {"source__size": 4},
        {"target__etag": f"{PLAIN}-2"},
        {"target__size": 4},
        {"source__etag": "", "record__etag": ""},
        {"target__etag": "", "record__target_etag": ""},
        {"record__target_etag": None},
        {"record__target_key": "run/b"},
        {"record__verified": "size"},
        {"record__verified": "none"},
        {"record__verified": None},
        {"record__state": "failed"},
        {"target__refusal": ("SymlinkSkipped", "a link")},
    ],
    ids=str,
)
def test_what_differs_from_the_record_is_looked_up(way: str, state: str, changed: dict[str, Any]) -> None:
    assert decide(way, state, **changed) is None


@pytest.mark.parametrize(
    ("way", "state", "changed"),
    [
        # An object of the source that was replaced by equal bytes, or in the second in which it was listed.
        ("down", "done", {"source__last_modified": 401.0}),
        ("between", "skipped", {"source__last_modified": 401.0}),
        ("down", "done", {"source__last_modified": 998.5, "record__last_modified": 998.5}),
        ("between", "done", {"source__last_modified": 1000.0, "record__last_modified": 1000.0}),
        # An object at the target that was replaced by equal bytes after it was compared, or may have been.
        ("up", "skipped", {"target__last_modified": 1005.0}),
        ("up", "skipped", {"target__last_modified": 998.5}),
        ("between", "skipped", {"target__last_modified": 2000.0}),
        # The same after it was copied; a storage with another clock; an ETag that is no digest.
        ("up", "done", {"target__last_modified": 1012.5}),
        ("between", "done", {"target__last_modified": 2000.0}),
        ("up", "done", {"target__last_modified": 1007.0}),
        ("up", "done", {"target__etag": "opaque", "record__target_etag": "opaque"}),
        ("up", "done", {"record__ended_at": None}),
        # A file whose mtime was set back, whose ctime was too recent for the record, or is unknown now.
        ("up", "done", {"ctime": 1500.0}),
        ("up", "skipped", {"ctime": 1500.0}),
        ("up", "done", {"record__file_changed": None}),
        ("up", "done", {"record__file_changed": None, "ctime": None}),
        ("down", "skipped", {"ctime": 1500.0}),
        ("down", "skipped", {"record__file_changed": None}),
        ("down", "skipped", {"record__file_changed": None, "ctime": None}),
        ("down", "done", {"ctime": 1011.01}),
        ("down", "done", {"ctime": 1009.9}),
        ("down", "done", {"ctime": 300.0}),
        ("down", "done", {"ctime": None}),
    ],
)
def test_times_show_writes_that_keep_size_and_etag(way: str, state: str, changed: dict[str, Any]) -> None:
    assert decide(way, state, **changed) is None


def test_a_ctime_goes_on_record_only_when_no_later_change_can_have_it() -> None:
    assert [unchanged.settled(changed, 100.0) for changed in (97.9, 98.0, 98.1, 100.0, 105.0, 0.0)] == [
        97.9,
        98.0,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("options", "decides"),
    [
        ({}, True),
        ({"if_exists": "size"}, False),
        ({"if_exists": "overwrite"}, False),
        ({"if_exists": "fail"}, False),
        ({"verify": "checksum"}, False),
        ({"verify": "content"}, False),
    ],
)
def test_the_record_decides_only_for_copies_that_are_compared_by_default(
    options: dict[str, str], decides: bool
) -> None:
    assert unchanged.may_decide(spec_of("up", **options)) == decides


@pytest.mark.parametrize("operation", ["move", "check", "pack", "verify", "remove"])
def test_what_removes_or_compares_does_not_rest_on_the_record(operation: str) -> None:
    assert not unchanged.may_decide(replace(spec_of("up"), operation=operation))
