"""The cost of one transfer, from its requests and its bytes."""

from __future__ import annotations

import pytest

from seqferry.cost import transfer
from seqferry.model.errors import UsageError
from seqferry.model.prices import GB, HOME

_TB = 1000 * GB


@pytest.mark.parametrize(
    ("regions", "found"),
    [
        ((), HOME),
        ((None,), HOME),
        (("mars-north-1", None), HOME),
        ((None, "eu-central-1"), "eu-central-1"),
        (("mars-north-1", "eu-central-1"), "eu-central-1"),
        (("eu-west-1", "eu-central-1"), "eu-west-1"),
    ],
)
def test_the_first_region_with_prices_counts(regions: tuple[str | None, ...], found: str) -> None:
    assert transfer.region_of(*regions) == found


@pytest.mark.parametrize("name", ["STANDARD", "STANDARD_IA", "GLACIER_IR", "DEEP_ARCHIVE"])
def test_listings_and_reads_cost_the_same_in_all_classes(name: str) -> None:
    counted = {"ListObjectsV2": 1000, "HeadObject": 1000, "GetObject": 500}
    one, standard = (transfer.price(HOME, counted, 0, storage_class=each) for each in (name, "STANDARD"))

    assert one is not None
    assert standard is not None
    assert one.requests == standard.requests > 0


def test_writes_cost_what_the_class_of_the_target_asks() -> None:
    costs = [transfer.price(HOME, {"PutObject": 1000}, 0, storage_class=name) for name in ("STANDARD", "DEEP_ARCHIVE")]

    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0].requests < costs[1].requests


def test_removals_are_free() -> None:
    found = transfer.price(HOME, {"DeleteObjects": 10**6, "AbortMultipartUpload": 10**6}, 0)

    assert found is not None
    assert found.requests == 0.0


@pytest.mark.parametrize("name", ["OUTPOSTS", "standard", "REDUCED_REDUNDANCY"])
def test_a_class_without_prices_has_no_cost(name: str) -> None:
    assert transfer.price(HOME, {}, GB, storage_class=name) is None


def test_a_region_without_prices_is_refused() -> None:
    with pytest.raises(UsageError, match="mars-north-1"):
        transfer.price("mars-north-1", {}, GB)


@pytest.mark.parametrize(("leaving", "arrives"), [(0, True), (GB, False), (_TB, True)])
def test_only_bytes_that_leave_or_stay_cost_something_of_their_own(leaving: int, arrives: bool) -> None:
    found = transfer.price(HOME, {}, 2 * _TB, leaving=leaving, arrives=arrives)

    assert found is not None
    assert (found.egress is None) is (leaving == 0)
    assert (found.month is None) is (not arrives)


def test_egress_is_cheaper_for_each_further_byte_and_never_for_all() -> None:
    costs = [transfer.price(HOME, {}, 0, leaving=leaving) for leaving in (_TB, 100 * _TB)]
    one, hundred = (each.egress for each in costs if each is not None)

    assert one is not None
    assert hundred is not None
    assert one < hundred < 100 * one
