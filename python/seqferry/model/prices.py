"""List prices, for rough figures before the start. All are in ``prices.toml``, each with its unit, source and date."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Price:
    """A list price.

    Attributes:
        dollars: what ``amount`` of the ``unit`` cost, in US dollars.
        date: of the source.
    """

    dollars: Decimal
    amount: int
    unit: str
    region: str
    source: str
    date: date

    def of(self, count: int) -> float:
        """US dollars of so many of the unit."""
        return float(self.dollars * count / self.amount)


@cache
def table() -> Mapping[str, Price]:
    """All prices by name."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("prices.toml").read_text("utf-8"))
    return {name: Price(dollars=Decimal(row.pop("dollars")), **row) for name, row in rows.items()}


def cost(name: str, count: int) -> float:
    """US dollars of so many units at the price of this name."""
    return table()[name].of(count)
