"""Amounts of data to be priced: bytes in so many objects."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.formatting import count, size
from seqferry.model.frozen import frozen

_UNITS: Final = {
    "": 1,
    "B": 1,
    "kB": 1000,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGTPE", 1)},
}
_WRITTEN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]{0,3})", re.ASCII)
_MOST_BYTES: Final = 2**60
_MOST_OBJECTS: Final = 10**15


@frozen
class Workload:
    """Bytes in objects. All are priced as if they had the mean size."""

    size: int
    objects: int

    def __post_init__(self) -> None:
        if not 1 <= self.objects <= _MOST_OBJECTS:
            raise UsageError(f"--objects {self.objects:,} is not valid: choose 1 to {_MOST_OBJECTS:,}.")

    @property
    def mean(self) -> int:
        """Bytes of an object, rounded up."""
        return -(-self.size // self.objects)

    def __str__(self) -> str:
        return f"{size(self.size)} in {count(self.objects, 'object')}"


def parse_size(written: str, named: str) -> int:
    """Bytes of a text such as ``11.88TiB``, ``8785GB`` or ``100``, with units of powers of 1000 or 1024.

    Raises:
        UsageError: it is no size.
    """
    match = _WRITTEN.fullmatch(written.strip())
    unit = None if match is None else _UNITS.get(match[2])
    if match is None or unit is None:
        raise UsageError(
            f"{named}: {written!r} is no size. Write for example 500GiB (powers of 1024) or 500GB (of 1000)."
        )
    found = round(Decimal(match[1]) * unit)
    if found > _MOST_BYTES:
        raise UsageError(f"{named}: {written} is more than an exbibyte.")
    return found
