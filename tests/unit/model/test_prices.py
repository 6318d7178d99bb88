"""List prices: each with its unit, source and date, and the figures that others have published."""

from __future__ import annotations

from datetime import date

import pytest

from seqferry.model import prices


@pytest.mark.parametrize("name", sorted(prices.table()))
def test_each_price_names_its_unit_its_source_and_its_date(name: str) -> None:
    price = prices.table()[name]

    assert price.dollars > 0
    assert price.amount > 0
    assert len(price.unit) > 10
    assert price.region
    assert price.source.startswith("https://")
    assert date(2024, 1, 1) < price.date


def test_a_gigabyte_of_datasync_is_that_of_the_paper() -> None:
    """11.88 TiB for $183.03, as the authors of S3Mirror compute it."""
    moved = round(11.88 * 2**40)

    dollars = prices.cost("datasync-enhanced", moved) + prices.cost("datasync-enhanced-task", 1)

    assert f"{dollars:.2f}" == "183.03"
