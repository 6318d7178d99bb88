"""Costs as text: a table of offers side by side with the prices below it, and the same as CSV."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from seqferry.cost.lines import money, number, percent
from seqferry.model.prices import CURRENCY

if TYPE_CHECKING:
    from seqferry.cost.lines import Comparison, Line, Offer
    from seqferry.model.prices import Price

_WIDTH: Final = 100
"""Columns of what is not a table."""
_TIMES: Final = 1000.0
"""Percent above which a factor says more."""


def format_comparison(found: Comparison) -> list[str]:
    """The comparison for a person. Each row names its price by the number that stands below with unit, date, source."""
    prices = found.prices
    numbers = {price.name: place for place, price in enumerate(prices, 1)}
    out = [f"{found.title} ({found.region}, {CURRENCY})", ""]
    out += _align([*_head(found), *_rows(found, numbers), *_sums(found.offers)])
    out += ["", "Prices"]
    for price in prices:
        out += _wrap(f"[{numbers[price.name]}]", _price(price))
    notes = [*found.notes, *(note for offer in found.offers for note in offer.notes)]
    for title, texts in (("Read as", dict.fromkeys(notes)), ("Left out", found.left_out)):
        if texts:
            out += ["", title]
            for text in texts:
                out += _wrap("-", text)
    return out


def _head(found: Comparison) -> list[tuple[str, ...]]:
    return [("", "quantity", "price", "", *(offer.name for offer in found.offers))]


def _rows(found: Comparison, numbers: dict[str, int]) -> Iterable[tuple[str, ...]]:
    """A row for each quantity of a price, with what it costs in each offer."""
    rows: dict[tuple[object, ...], dict[str, Line]] = {}
    for offer in found.offers:
        for line in offer.lines:
            key = (line.item, line.price.name, line.quantity, line.discount, line.less)
            rows.setdefault(key, {})[offer.name] = line
    for by_offer in rows.values():
        line = next(iter(by_offer.values()))
        off = f", less {number(line.discount)} %" if line.discount else ""
        yield (
            line.item,
            number(line.amounts),
            f"{line.price.dollars.normalize():f} per {line.price.per}{off}",
            f"[{numbers[line.price.name]}]",
            *(money(by_offer[offer.name].dollars) if offer.name in by_offer else "-" for offer in found.offers),
        )


def _sums(offers: Sequence[Offer]) -> Iterable[tuple[str, ...]]:
    first = offers[0]
    yield ("sum", "", "", "", *(money(offer.dollars) for offer in offers))
    if len(offers) > 1:
        yield ("difference", "", "", "", "", *(_format_difference(offer, first) for offer in offers[1:]))
        yield ("", "", "", "", "", *(_share(offer, first) for offer in offers[1:]))


def _format_difference(offer: Offer, first: Offer) -> str:
    difference = offer.dollars - first.dollars
    return f"{'+' if difference > 0 else ''}{money(difference)}"


def _share(offer: Offer, first: Offer) -> str:
    share = percent(offer.dollars, first.dollars)
    if share is None or offer.dollars == first.dollars:
        return ""
    if share > _TIMES:
        return f"{number(offer.dollars / first.dollars)} times"
    return f"{abs(share):,.2f} % {'more' if share > 0 else 'less'}"


def _price(price: Price) -> str:
    doubt = "" if price.verified else "; not verified"
    return (
        f"{price.dollars.normalize():f} {CURRENCY} per {price.per}: {price.unit}; {price.date}{doubt}; {price.source}"
    )


def _wrap(mark: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {mark:<4} ",
        subsequent_indent=" " * 7,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Names to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 2, 3}
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
