"""The cost of a transfer by its places: what is on AWS has a price, and what leaves it costs most."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.spec import pricing

_GB = 1024**3
_AWS, _OTHER = S3Location("a", region="eu-central-1"), S3Location("b", endpoint_url="https://s3.example.org")
_DISK = LocalFolder("/data")


@pytest.mark.parametrize(
    ("source", "target", "region", "is_priced"),
    [
        (_AWS, _AWS, None, True),
        (_AWS, _DISK, None, True),
        (_DISK, _AWS, None, True),
        (_AWS, _OTHER, None, False),
        (_OTHER, _DISK, None, False),
        (_OTHER, _OTHER, "eu-central-1", True),
    ],
)
def test_all_requests_have_a_price_where_all_places_are_on_aws(
    source: Any, target: Any, region: str | None, is_priced: bool
) -> None:
    spec = TransferSpec(source, target)

    assert pricing.has_prices(spec, region) is is_priced
    assert (pricing.max_cost(spec, 10, _GB, region) is not None) is is_priced


@pytest.mark.parametrize(
    ("source", "target", "region", "leaves", "arrives"),
    [
        (_AWS, _AWS, None, False, True),
        (_AWS, _DISK, None, True, False),
        (_DISK, _AWS, None, False, True),
        (_OTHER, _OTHER, "us-east-1", False, True),
        (_OTHER, _DISK, "us-east-1", True, False),
    ],
)
def test_bytes_leave_or_arrive_as_the_places_say(
    source: Any, target: Any, region: str | None, leaves: bool, arrives: bool
) -> None:
    found = pricing.max_cost(TransferSpec(source, target), 10, _GB, region)

    assert found is not None
    assert (found.egress is not None) is leaves
    assert (found.month is not None) is arrives


@pytest.mark.parametrize("operation", ["pack", "unpack"])
def test_members_of_archives_are_counted_as_if_all_passed_through_a_machine(operation: str) -> None:
    found = pricing.max_cost(TransferSpec(_AWS, _AWS, operation=operation), 10, _GB)

    assert found is not None
    assert found.egress is not None


def test_requests_of_a_download_cost_what_reads_cost() -> None:
    down, up = (pricing.max_cost(TransferSpec(*places), 1000, 0) for places in ((_AWS, _DISK), (_DISK, _AWS)))

    assert down is not None
    assert up is not None
    assert 0 < down.requests < up.requests


@pytest.mark.parametrize(
    ("source", "target", "region"),
    [
        (_AWS, _DISK, "eu-central-1"),
        (_AWS, S3Location("c", region="us-east-1"), "us-east-1"),
        (_AWS, S3Location("c", region="nowhere"), "eu-central-1"),
        (S3Location("c", region="nowhere"), _DISK, "us-east-1"),
    ],
)
def test_the_region_of_the_target_counts_before_that_of_the_source(source: Any, target: Any, region: str) -> None:
    found = pricing.cost(TransferSpec(source, target), {}, 0)

    assert found is not None
    assert found.region == region


def test_a_transfer_without_a_place_on_aws_has_no_cost() -> None:
    assert pricing.cost(TransferSpec(_OTHER, _DISK), {"GetObject": 5}, 7) is None
