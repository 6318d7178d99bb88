"""Sizes and rates as people write them: ``8MiB``, ``50MB/s``, and timetables of rates."""

from __future__ import annotations

import re
from datetime import datetime, time
from typing import Final, Self

from seqferry.model.frozen import frozen

_UNITS: Final = {"": 1, "b": 1}
_UNITS.update({f"{letter}{suffix}": 1000**power for power, letter in enumerate("kmgt", 1) for suffix in ("b",)})
_UNITS.update({f"{letter}{suffix}": 1024**power for power, letter in enumerate("kmgt", 1) for suffix in ("", "ib")})
_SIZE: Final = r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*"
_CLOCK: Final = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"

_MOST_BYTES: Final = 2**60
"""1 EiB: more than any machine has, and well within what the engine counts with."""


def parse_size(text: str) -> int:
    """Bytes of ``8388608``, ``8M``, ``8MiB`` (powers of 1024) or ``8MB`` (powers of 1000).

    Raises:
        ValueError: the text has another form, or means more than 1 EiB.
    """
    match = re.fullmatch(_SIZE, text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"'{text}' is not a size; write for example 8388608, 8MiB or 8MB")
    size = float(match[1]) * unit
    if size > _MOST_BYTES:
        raise ValueError(f"'{text}' is too large a size; the most is 1048576TiB")
    return round(size)


def parse_rate(text: str) -> int:
    """Bytes per second of a size, as ``50MB`` or ``50MB/s``.

    Raises:
        ValueError: the text has another form, or means less than 1 byte.
    """
    rate = parse_size(re.sub(r"/s\s*$", "", text, flags=re.IGNORECASE))
    if rate < 1:
        raise ValueError("a limit is at least 1 byte per second; leave it out for none")
    return rate


@frozen
class Bandwidth:
    """A limit that may depend on the time of day, by this machine's clock.

    Attributes:
        changes: the minute of the day from which a limit holds, and the limit in bytes per second (None: none), in
            their order, one at least. The last one of a day holds on until the first one of the next.
    """

    changes: tuple[tuple[int, int | None], ...] = ((0, None),)

    def at(self, moment: time) -> int | None:
        """The limit at that time of day."""
        minute = 60 * moment.hour + moment.minute
        in_force = self.changes[-1][1]
        for begins, limit in self.changes:
            if begins <= minute:
                in_force = limit
        return in_force

    def __str__(self) -> str:
        """Text that ``parse`` takes."""
        if len(self.changes) == 1:
            return _rate(self.changes[0][1])
        return " ".join(f"{minute // 60:02}:{minute % 60:02},{_rate(limit)}" for minute, limit in self.changes)

    def now(self) -> int | None:
        return self.at(datetime.now().time())  # noqa: DTZ005 - a timetable is kept by the clock on the wall

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses ``50MB``, ``50MB/s``, ``off``, or a timetable: ``08:00,50MB/s 18:00,off``.

        Raises:
            ValueError: the text is neither a limit nor a timetable.
        """
        words = text.split()
        if words and "," not in text:
            return cls(((0, _limit(text.strip())),))
        changes: dict[int, int | None] = {}
        for word in words:
            clock, comma, limit = word.partition(",")
            minute = _minute(clock)
            if not comma or minute is None:
                raise ValueError(f"'{word}' is no time with its limit; write for example 08:00,50MB/s 18:00,off")
            if minute in changes:
                raise ValueError(f"{clock} is there twice")
            changes[minute] = _limit(limit)
        if not changes:
            raise ValueError("it is empty; write for example 50MB/s, or 08:00,50MB/s 18:00,off")
        return cls(tuple(sorted(changes.items())))


def _rate(limit: int | None) -> str:
    return "off" if limit is None else f"{limit}B/s"


def _limit(text: str) -> int | None:
    return None if text.lower() == "off" else parse_rate(text)


def _minute(clock: str) -> int | None:
    match = re.fullmatch(_CLOCK, clock)
    return None if match is None else 60 * int(match[1]) + int(match[2])


NO_LIMIT: Final = Bandwidth()
