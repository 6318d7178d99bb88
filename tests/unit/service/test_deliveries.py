"""A delivery as its share link shows it: figures and words, and nothing that the link does not cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model.labels import Description
from seqferry.model.locations import S3Location
from seqferry.model.models import FailureGroup, LiveActivity, Status, Totals, TransferSpec
from seqferry.service import deliveries
from seqferry.service.deliveries import Deliveries, DeliveryWait
from seqferry.service.service import Service
from seqferry.service.share_links import ShareLink

_SPEC: Any = TransferSpec(S3Location("vendor", "run42/"), S3Location("ours", "run42/"))
_NOTHING = Totals()
_LINK = ShareLink("0123456789ab", "t", None, "active", 0.0, "ada@lab", 1.0, None, None)


def _status(state: Any = "queued", *, planned: bool = True, totals: Totals = _NOTHING, **more: Any) -> Status:
    return Status("t", state, _SPEC, totals, planned, created_at=0.0, created_by="ada@lab", **more)


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        ("ada@lab", "ada"),
        ("ada", "ada"),
        ("", ""),
        ("http ada from 10.1.2.3", "ada"),
        ("http from 10.1.2.3", ""),
        ("http from from 10.1.2.3", "from"),
        ("http", ""),
    ],
)
def test_a_person_is_shown_without_machine_or_address(actor: str, name: str) -> None:
    assert deliveries.display_name(actor) == name


def test_a_key_means_nothing_to_another_link() -> None:
    keys = {
        deliveries.delivery_key(replace(_LINK, id=link), one)
        for link in ("0123456789ab", "ba9876543210")
        for one in "xy"
    }

    assert len(keys) == 4
    assert all(len(key) == 16 and set(key) <= set("0123456789abcdef") for key in keys)


_HALF = Totals(objects=4, bytes=1000)


@pytest.mark.parametrize(
    ("first", "sums", "share"),
    [
        (_status(totals=_HALF), Totals(bytes_done=0), 0.0),
        (_status(totals=_HALF), Totals(bytes_done=500), 0.5),
        (_status(totals=_HALF), Totals(bytes_done=1000), 0.999),
        (_status(totals=_HALF), Totals(bytes_done=2000), 0.999),  # objects that grew
        (_status(totals=replace(_HALF, bytes=30_000)), Totals(bytes_done=29_999), 0.999),
        (_status(totals=replace(_HALF, bytes=30_000)), Totals(bytes_done=14_999), 0.499),
        (_status(totals=Totals(objects=4)), Totals(done=1, skipped=2), 0.75),
        (_status(totals=Totals(objects=4)), Totals(done=4), 0.999),
        (_status(totals=Totals()), Totals(), None),
        (_status(totals=_HALF, planned=False), Totals(bytes_done=500), None),
    ],
)
def test_a_share_is_whole_only_when_all_has_arrived(first: Status, sums: Totals, share: float | None) -> None:
    assert deliveries._share(first, sums, is_complete=False) == share
    assert deliveries._share(first, sums, is_complete=True) == 1.0


@given(st.integers(1, 10**15), st.integers(0, 10**15))
def test_a_share_never_exceeds_what_has_arrived(whole: int, done: int) -> None:
    share = deliveries._share(_status(totals=Totals(bytes=whole)), Totals(bytes_done=done), is_complete=False)

    assert share is not None
    assert 0 <= share < 1
    assert share <= done / whole


def _group(code: str, operation: str, count: int, error_class: str = "person") -> FailureGroup:
    return FailureGroup(error_class, code, operation, "s3://secret/key: no", count, (), bytes=10 * count)


def test_causes_that_read_alike_are_one_and_the_most_frequent_comes_first() -> None:
    causes = deliveries._causes(
        [
            _group("AccessDenied", "GetObject", 3),
            _group("NoSuchKey", "GetObject", 4, "source_changed"),
            _group("Forbidden", "HeadObject", 2),
        ]
    )

    assert [(one.count, one.bytes) for one in causes] == [(5, 50), (4, 40)]
    assert causes[0].needs == "sender"
    assert not any("secret" in one.words for one in causes)


def test_no_failures_have_no_causes() -> None:
    assert deliveries._causes([]) == []


_OTHER = _status(description=Description("Run 41"))


@pytest.mark.parametrize(
    ("status", "wait"),
    [
        (_status(ahead=3), DeliveryWait("turn", ahead=3)),
        (_status(ahead=None), DeliveryWait("turn")),
        (_status("running"), None),
        (_status("paused", waits_for="a worker with profile lab"), None),
        (_status("done", ended_at=1.0, waits_for="x"), None),
        (_status(live=LiveActivity(workers=1), blocked_by="other"), None),
        (_status(waits_for="a worker with profile lab"), DeliveryWait("worker")),
        (_status(blocked_by="other", waits_for="x"), DeliveryWait("delivery", name="Run 41")),
        # The name of a delivery that the link does not show is not told.
        (_status(blocked_by="elsewhere"), DeliveryWait("delivery")),
    ],
)
def test_a_wait_is_told_without_what_the_link_does_not_show(status: Status, wait: DeliveryWait | None) -> None:
    assert Deliveries(cast("Service", None))._wait(status, {"other": _OTHER}) == wait
