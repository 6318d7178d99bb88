"""Lists of tables in the configuration file, as ``[[share]]`` and ``[[limit]]``: one reader of keys and values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from seqferry.model.frozen import frozen

Parser = Callable[[object], Any]
"""Reads a value; raises ValueError with the reason when it does not fit."""

MOST: Final = 256
"""Tables of one list."""


class TableError(Exception):
    """A table that cannot be used. ``key`` is the one at fault, if one is."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@frozen
class TableList:
    """A list of tables.

    Args:
        name: of each table, as ``share``.
        verb: what is done with them at most ``MOST`` times.
        parsers: of its keys.
        examples: a value for each key that must be there.
    """

    name: str
    verb: str
    parsers: Mapping[str, Parser]
    examples: Mapping[str, str]

    def read(self, tables: object) -> list[dict[str, Any]]:
        """The values of each table by key.

        Raises:
            TableError: a key is not known or missing, or a value does not fit.
        """
        items = cast("list[Any]", tables) if isinstance(tables, list) else [None]
        if not all(isinstance(item, dict) for item in items):
            raise TableError(f"'{self.name}' is a list of tables; write [[{self.name}]]")
        if len(items) > MOST:
            raise TableError(f"there are {len(items)} {self.name}s, and at most {MOST} can be {self.verb}")
        return [self._values(cast("dict[str, Any]", item)) for item in items]

    def _values(self, table: Mapping[str, Any]) -> dict[str, Any]:
        for key in table:
            if key not in self.parsers:
                nearest = difflib.get_close_matches(key, self.parsers, 1)
                hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are: {', '.join(self.parsers)}"
                raise TableError(f"the key '{key}' in [[{self.name}]] is not known; {hint}", key)
        for key, example in self.examples.items():
            if key not in table:
                raise TableError(f'a {self.name} has no {key}; write {key} = "{example}"')
        values: dict[str, Any] = {}
        for key, value in table.items():
            try:
                values[key] = self.parsers[key](value)
            except ValueError as why:
                raise TableError(f"[[{self.name}]] {key}: {why}", key) from None
        return values


def find_repeated(values: Sequence[str]) -> str | None:
    """The first value that is there twice."""
    return next((value for value in values if values.count(value) > 1), None)


def text(value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("write a text")
    return value


def place(value: object) -> str:
    """A bucket or a prefix, as ``s3://bucket/prefix/``."""
    found = text(value)
    if not found.startswith("s3://") or not found.removeprefix("s3://").strip("/"):
        raise ValueError(f"'{found}' is no bucket or prefix; write s3://bucket/prefix/")
    return found


def number(least: int, most: int) -> Parser:
    """The reader of a whole number within these bounds."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"write a number from {least} to {most}")
        return value

    return read
