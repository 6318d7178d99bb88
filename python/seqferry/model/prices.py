"""List prices, for figures of money. All are in ``prices.toml``, each with its unit, source and date."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen

CURRENCY: Final = "USD"
HOME: Final = "us-east-1"
"""Region of the rows themselves; rows of other regions are ``in`` them."""
GB: Final = 2**30
"""Bytes of a GB of AWS."""
_MOST_BYTES: Final = 4 * 2**20
"""Largest file of prices: some hundred times the one that comes along."""
_MOST_DOLLARS: Final = 10**9
_MOST_UNITS: Final = 10**18
"""Bounds of a row, so that sums stay exact: more is a typing error."""
_MOST_STEPS: Final = 16
"""Rows that a price with steps has at most."""
_OWN: Final = frozenset({"dollars", "amount", "per", "unit", "region", "source", "date", "verified", "up_to", "then"})
_OF_REGION: Final = frozenset({"dollars", "source", "date", "verified"})


@frozen
class Price:
    """A list price.

    Attributes:
        dollars: what ``amount`` of the ``unit`` cost, in US dollars.
        date: of the source.
        per: the amount, in short: ``GB-month``.
        verified: True when the source states this very figure.
        up_to: the price of the row ``then`` holds above so many of the unit.
    """

    dollars: Decimal
    amount: int
    unit: str
    region: str
    source: str
    date: date
    name: str = ""
    per: str = ""
    verified: bool = False
    up_to: int | None = None
    then: str | None = None

    def exactly(self, count: Decimal | int) -> Decimal:
        """US dollars of so many of the unit."""
        return self.dollars * count / self.amount

    def of(self, count: int) -> float:
        """US dollars of so many of the unit."""
        return float(self.exactly(count))


@frozen
class PriceList:
    """Prices of one file, in one region.

    Attributes:
        named: the file, for messages.
        regions: those that the file has any price of.
    """

    named: str
    region: str
    regions: tuple[str, ...]
    rows: Mapping[str, Price] = field(repr=False)

    def get(self, name: str) -> Price:
        """The price of this name.

        Raises:
            UsageError: the file has none in this region.
        """
        self.require([name])
        return self.rows[name]

    def require(self, names: Iterable[str]) -> None:
        """Check that these prices exist.

        Raises:
            UsageError: some are missing; it names them all.
        """
        missing = [name for name in dict.fromkeys(names) if name not in self.rows]
        if missing:
            rows = "row" if len(missing) == 1 else "rows"
            raise UsageError(
                f"{self.named} has no {rows} {', '.join(missing)} for {self.region}. Add what is missing to a file of "
                "your own, which `seqferry cost prices` prints a start of, and give it with --prices."
            )

    def steps(self, name: str, count: Decimal | int) -> Iterator[tuple[Price, Decimal]]:
        """Yields the prices of so many units, each with the units that it holds for."""
        price, below, left = self.get(name), Decimal(0), Decimal(count)
        for _ in range(_MOST_STEPS):
            most = (
                left if price.up_to is None or price.then is None else min(left, max(price.up_to - below, Decimal(0)))
            )
            if most > 0 or price.name == name:
                yield price, most
            left -= most
            if left <= 0 or price.up_to is None or price.then is None:
                return
            below, price = Decimal(price.up_to), self.get(price.then)
        raise UsageError(f"{self.named}: the row {name} has more than {_MOST_STEPS} steps. Remove some of them.")

    def with_prefix(self, prefix: str) -> list[str]:
        """Ends of the names that begin with the prefix."""
        return [name.removeprefix(prefix) for name in self.rows if name.startswith(prefix)]


@cache
def table() -> Mapping[str, Price]:
    """All prices by name, as they are in us-east-1."""
    return read_shipped(HOME).rows


def cost(name: str, count: int) -> float:
    """US dollars of so many units at the price of this name."""
    return table()[name].of(count)


@cache
def read_shipped(region: str) -> PriceList:
    """The prices that come along, in this region.

    Raises:
        UsageError: there are none of that region.
    """
    return _of_text(shipped_text(), "The list of prices", region)


def shipped_text() -> str:
    """The file of prices as it is."""
    return Path(__file__).with_name("prices.toml").read_text("utf-8")


def read_file(path: Path, region: str) -> PriceList:
    """The prices of one's own file, which stand in place of those that come along.

    Raises:
        UsageError: it cannot be read, or a row of it makes no sense.
    """
    named = str(path)
    try:
        with path.open("rb") as opened:
            read = opened.read(_MOST_BYTES + 1)
        if len(read) > _MOST_BYTES:
            raise UsageError(f"{named} is larger than {_MOST_BYTES // 2**20} MiB: it is no file of prices.")
        return _of_text(read.decode("utf-8"), named, region)
    except OSError as why:
        raise UsageError(f"Cannot read the prices of {named}: {why.strerror or why}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{named} is not UTF-8 text: it is no file of prices.") from None


def _of_text(written: str, named: str, region: str) -> PriceList:
    try:
        rows: dict[str, Any] = tomllib.loads(written, parse_float=Decimal)
    except (ValueError, RecursionError) as why:
        raise UsageError(f"{named} is not TOML: {why}.") from None
    currency = rows.pop("currency", CURRENCY)
    if currency != CURRENCY:
        raise UsageError(f"{named} has prices in {currency!r}; amounts are in {CURRENCY}. Convert them.")
    found: dict[str, Price] = {}
    regions = dict[str, None]()
    for name, row in rows.items():
        for price in _rows(row, named, name):
            regions[price.region] = None
            if price.region == region:
                found[name] = price
    if region not in regions:
        raise UsageError(f"{named} has no prices of region {region!r}; it has {', '.join(sorted(regions)) or 'none'}.")
    return PriceList(named=named, region=region, regions=tuple(sorted(regions)), rows=found)


def _rows(row: Any, named: str, name: str) -> Iterator[Price]:
    """The price of a row, and those in other regions."""
    own = _table(row, named, name)
    elsewhere = _table(own.pop("in", {}), named, f"{name}.in")
    _refuse_unknown(own, _OWN, named, name)
    home = _price(own, named, name)
    yield home
    for region, other in elsewhere.items():
        changed = _table(other, named, f"{name}.in.{region}")
        _refuse_unknown(changed, _OF_REGION, named, f"{name}.in.{region}")
        yield _price({**own, **changed, "region": region}, named, f"{name}.in.{region}", known_as=name)


def _table(found: Any, named: str, name: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise UsageError(f"{named}: {name} is not a row, as [{name}] begins one.")
    return dict(cast("dict[str, Any]", found))


def _refuse_unknown(row: Mapping[str, Any], known: frozenset[str], named: str, name: str) -> None:
    if unknown := sorted(row.keys() - known):
        raise UsageError(
            f"{named}: the row {name} has {unknown[0]!r}, which no price has; choose one of {', '.join(sorted(known))}."
        )


def _price(row: Mapping[str, Any], named: str, name: str, known_as: str | None = None) -> Price:
    def text(key: str) -> str:
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{named}: the row {name} lacks {key!r}, a text.")
        return value

    day = row.get("date")
    if type(day) is not date:
        raise UsageError(f"{named}: the row {name} lacks 'date', as 2026-08-01.")
    verified = row.get("verified", False)
    if not isinstance(verified, bool):
        raise UsageError(f"{named}: 'verified' of the row {name} is neither true nor false.")
    up_to = row.get("up_to")
    return Price(
        name=known_as or name,
        dollars=_dollars(row.get("dollars"), named, name),
        amount=_whole(row.get("amount"), named, name, "amount"),
        unit=text("unit"),
        region=text("region"),
        source=text("source"),
        date=day,
        per=text("per"),
        verified=verified,
        up_to=None if up_to is None else _whole(up_to, named, name, "up_to"),
        then=None if up_to is None else text("then"),
    )


def _dollars(given: Any, named: str, name: str) -> Decimal:
    try:
        dollars = Decimal(given) if isinstance(given, (str, int, Decimal)) and not isinstance(given, bool) else None
    except InvalidOperation:
        dollars = None
    if dollars is None or not dollars.is_finite():
        raise UsageError(f"{named}: the row {name} lacks 'dollars', a number as \"0.023\".")
    if dollars < 0:
        raise UsageError(f"{named}: the price of the row {name} is negative ({dollars}).")
    if dollars > _MOST_DOLLARS:
        raise UsageError(f"{named}: the price of the row {name} is over {_MOST_DOLLARS:,} dollars.")
    return dollars


def _whole(given: Any, named: str, name: str, key: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _MOST_UNITS:
        raise UsageError(f"{named}: the row {name} lacks {key!r}, a whole number above 0.")
    return given
