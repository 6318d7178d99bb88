"""Priced lines: each a quantity at a price. Offers are made of lines, and a comparison of offers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.prices import CURRENCY, GB, Price, PriceList

_CENT: Final = Decimal("0.01")
_SMALL: Final = Decimal("0.0001")
_MOST: Final = Decimal(10) ** 18
"""Largest quantity: an exbibyte, or as many requests."""
_HUNDRED: Final = Decimal(100)


@frozen
class Line:
    """A quantity at a price.

    Attributes:
        quantity: in the unit of the price.
        discount: percent off.
        less: dollars off, where a service caps what it asks.
    """

    item: str
    quantity: Decimal
    price: Price
    discount: Decimal = Decimal(0)
    less: Decimal = Decimal(0)

    @property
    def dollars(self) -> Decimal:
        """Exact US dollars."""
        return (self.price.exactly(self.quantity) - self.less) * (1 - self.discount / _HUNDRED)

    @property
    def amounts(self) -> Decimal:
        """The quantity as people count it: GB for bytes, else the unit itself."""
        return self.quantity / GB if self.price.amount == GB else self.quantity

    def facts(self) -> dict[str, Any]:
        """Values for JSON and CSV."""
        return {
            "item": self.item,
            "quantity": float(self.quantity),
            "unit": self.price.unit,
            "price": self.price.name,
            "price_dollars": float(self.price.dollars),
            "price_amount": self.price.amount,
            "price_per": self.price.per,
            "region": self.price.region,
            "source": self.price.source,
            "date": self.price.date.isoformat(),
            "verified": self.price.verified,
            "discount_percent": float(self.discount),
            "less_dollars": float(self.less),
            "dollars": float(self.dollars),
        }


@frozen
class Offer:
    """A way to have something done, with what it costs."""

    name: str
    lines: Sequence[Line]
    notes: Sequence[str] = ()

    @property
    def dollars(self) -> Decimal:
        return sum((line.dollars for line in self.lines), Decimal(0))


@frozen
class Comparison:
    """Offers side by side. The first is the requested one.

    Attributes:
        title: the question, as a heading.
        notes: readings and facts that the figures rest on.
        left_out: costs that are not in the figures.
    """

    kind: str
    title: str
    region: str
    offers: Sequence[Offer]
    notes: Sequence[str] = ()
    left_out: Sequence[str] = field(default_factory=tuple[str, ...])

    @property
    def unverified(self) -> list[Price]:
        """Prices that no source states as they are."""
        return [price for price in self.prices if not price.verified]

    @property
    def prices(self) -> list[Price]:
        """All prices, in the order of their first lines."""
        return list({line.price.name: line.price for offer in self.offers for line in offer.lines}.values())

    def facts(self) -> dict[str, Any]:
        """The whole as values for JSON."""
        first = self.offers[0].dollars
        return {
            "kind": self.kind,
            "title": self.title,
            "region": self.region,
            "currency": CURRENCY,
            "offers": [
                {
                    "name": offer.name,
                    "dollars": float(offer.dollars),
                    "difference_dollars": float(offer.dollars - first),
                    "difference_percent": percent(offer.dollars, first),
                    "lines": [line.facts() for line in offer.lines],
                    "notes": list(offer.notes),
                }
                for offer in self.offers
            ],
            "notes": list(self.notes),
            "left_out": list(self.left_out),
        }


def percent(dollars: Decimal, first: Decimal) -> float | None:
    """Difference in percent of the first; None where the first costs nothing."""
    return float(((dollars - first) / first * _HUNDRED).quantize(_CENT, ROUND_HALF_UP)) if first else None


@frozen
class Pricer:
    """Makes lines from prices of one list.

    Attributes:
        discount: percent off every price.
        of_machines: percent off the hours of machines, in place of ``discount`` where it is more.
    """

    prices: PriceList
    discount: Decimal = Decimal(0)
    of_machines: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        for named, value in (("--discount", self.discount), ("--machine-discount", self.of_machines)):
            if not 0 <= value <= _HUNDRED:
                raise UsageError(f"{named} {value:f} is not a percentage: write 0 to 100.")

    def lines(self, item: str, name: str, quantity: Decimal | int) -> list[Line]:
        """The lines of a quantity: one for each step of its price, none for nothing."""
        return list(self._lines(item, name, quantity))

    def _lines(self, item: str, name: str, quantity: Decimal | int) -> Iterator[Line]:
        if quantity > _MOST:
            raise UsageError(f"{item}: {float(quantity):.3g} is more than can be priced. Ask for less.")
        discount = max(self.discount, self.of_machines) if name.startswith("ec2-") else self.discount
        if quantity > 0:
            for number, (price, units) in enumerate(self.prices.steps(name, quantity)):
                yield Line(item if number == 0 else f"{item}, step {number + 1}", units, price, discount)


def money(dollars: Decimal) -> str:
    """Dollars for people, rounded half up: cents, and more decimals of what is less than a cent."""
    if dollars and abs(dollars) < _CENT:
        shown = dollars.quantize(_SMALL, ROUND_HALF_UP)
        return f"{shown:,.4f}" if shown else "<0.0001"
    return f"{dollars.quantize(_CENT, ROUND_HALF_UP):,.2f}"


def number(value: Decimal) -> str:
    """A quantity for people: at most two decimals, and none that say nothing."""
    rounded = value.quantize(_CENT, ROUND_HALF_UP)
    shown = f"{rounded:,.2f}".rstrip("0").rstrip(".")
    return shown if rounded or not value else f"{value:.2g}"


def decimal(value: float, named: str, *, least: float = 0, most: float = float(_MOST)) -> Decimal:
    """A number that a person gave, exactly as written.

    Raises:
        UsageError: it is not within these bounds.
    """
    if not least <= value <= most:
        raise UsageError(f"{named} {value:g} is not valid: choose {least:g} to {most:,.15g}.")
    return Decimal(repr(value))
