"""What happens to one object is decided in one place, without a storage."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from seqferry import planning
from seqferry.models import LocalFolder, S3Location, TransferSpec

SPEC = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")
PLAIN = "d41d8cd98f00b204e9800998ecf8427e"
OTHER = "900150983cd24fb0d6963f7d28e17f72"


@dataclass(frozen=True)
class FoundObject:
    key: str
    size: int = 3
    etag: str = PLAIN
    last_modified: float = 0.0
    version_id: str | None = None
    refusal: tuple[str, str] | None = None


def test_an_object_goes_below_the_target() -> None:
    assert planning.decide(SPEC, FoundObject("run/a")) == planning.Decision("copy", "in/a")


@pytest.mark.parametrize(
    ("etag", "there", "action"),
    [
        (PLAIN, FoundObject("in/a"), "skip"),
        (PLAIN, FoundObject("in/a", size=4), "copy"),
        (PLAIN, FoundObject("in/a", etag=OTHER), "copy"),
        (PLAIN, None, "copy"),
        (f"{PLAIN}-3", FoundObject("in/a", etag=f"{PLAIN}-3"), "skip"),
        (f"{PLAIN}-3", FoundObject("in/a", etag=f"{PLAIN}-4"), "copy"),
        ("opaque", FoundObject("in/a", etag="opaque"), "copy"),
        ("", FoundObject("in/a", etag=""), "copy"),
        (PLAIN, FoundObject("in/a", refusal=("SymlinkSkipped", "it is a link")), "copy"),
    ],
)
def test_equal_digests_in_both_listings_are_enough_to_skip(etag: str, there: FoundObject | None, action: str) -> None:
    decision = planning.decide(SPEC, FoundObject("run/a", etag=etag), there=there)

    assert (decision.action, decision.verified) == (action, "etag" if action == "skip" else None)


@pytest.mark.parametrize(
    ("spec", "compares"),
    [
        (SPEC, True),
        (replace(SPEC, if_exists="overwrite"), False),
        (replace(SPEC, if_exists="skip"), False),
        (replace(SPEC, if_exists="fail"), False),
        (replace(SPEC, verify="checksum"), False),
        (replace(SPEC, verify="content"), False),
        (replace(SPEC, source=LocalFolder("/data/run")), False),
        (replace(SPEC, target=LocalFolder("/data/run")), False),
    ],
)
def test_listings_are_compared_only_where_that_is_what_was_asked_for(spec: TransferSpec, compares: bool) -> None:
    assert planning.compares_listings(spec) == compares


@pytest.mark.parametrize(
    ("target", "found", "action", "code"),
    [
        (S3Location("to", "in/"), FoundObject("run/a", refusal=("SpecialFile", "a pipe")), "leave_out", "SpecialFile"),
        (S3Location("to", "in/"), FoundObject("run/a", refusal=("Unreadable", "no")), "refuse", "Unreadable"),
        (S3Location("to", ""), FoundObject("run/", size=0), "ignore", None),
        (S3Location("to", ""), FoundObject("run/", size=1), "refuse", "EmptyTargetKey"),
        (S3Location("to", "x" * 1020), FoundObject("run/abcde"), "refuse", "TargetKeyTooLong"),
        (LocalFolder("/data"), FoundObject("run/a/../b"), "refuse", "DotSegment"),
        (LocalFolder("/data"), FoundObject("run/\udcff" + "a" * 255), "refuse", "NameTooLong"),
        (LocalFolder("/state"), FoundObject("run/records.db"), "leave_out", "StateFolder"),
    ],
)
def test_what_cannot_go_is_refused_and_what_nobody_meant_is_left_out(
    target: S3Location | LocalFolder, found: FoundObject, action: str, code: str | None
) -> None:
    decision = planning.decide(replace(SPEC, target=target), found, own="/state")

    assert (decision.action, decision.code) == (action, code)
    assert (decision.reason is None) == (code is None)


def test_nothing_is_removed_for_a_source_that_is_empty_or_did_not_arrive() -> None:
    spec = replace(SPEC, delete=True, max_delete=2)

    empty, failed = planning.why_kept(spec, 0, 0), planning.why_kept(spec, 5, 1)
    assert empty is not None
    assert failed is not None
    assert (empty.code, empty.is_failure) == ("EmptySource", True)
    assert (failed.code, failed.is_failure) == ("NotAllArrived", False)
    assert planning.why_kept(spec, 5, 0) is None
    assert [planning.too_many(spec, found) is None for found in (0, 2, 3)] == [True, True, False]
    assert planning.too_many(replace(spec, max_delete=None), 10**6) is None


def test_only_objects_of_the_target_are_removed() -> None:
    disk = replace(SPEC, target=LocalFolder("/state/.."), strip="run/")

    assert planning.removable(SPEC, FoundObject("in/d/f"), "/state") == "run/d/f"
    assert planning.removable(SPEC, FoundObject("in/d/f", refusal=("SpecialFile", "a pipe")), "/state") is None
    assert planning.removable(replace(disk, target=LocalFolder("/")), FoundObject("state/records.db"), "/state") is None
