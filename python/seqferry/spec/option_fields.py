"""Description of an option for all doors, as the annotation of a field in a frozen dataclass (``option_groups``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

Notation = Literal["size", "bandwidth", "pairs"]
"""Form of a value on the command line: ``64MiB``, ``200MiB`` or a timetable, ``NAME=VALUE``.

Over HTTP a size is a number of bytes, and pairs are an object.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """Form of an option over HTTP, besides its name, type and default."""

    text: str | None = None
    """Description. None: the help of the command line."""
    most: int | None = None
    """Largest number. None: that of the option."""
    characters: int | None = None
    """Longest text, or longest text of a list; such a text is not empty. None: no bound of its own."""
    items: int | None = None
    """Longest list, or largest number of pairs. None: no bound of its own."""
    example: object = None


@dataclass(frozen=True, slots=True)
class Option:
    """The description of an option, for the annotation of its field. The field has its type and default."""

    help: str | None = None
    metavar: str | None = None
    notation: Notation | None = None
    _: KW_ONLY
    words: tuple[str, ...] = ()
    """Names on the command line; empty: ``--a-b`` of the field ``a_b``. The first one names the environment variable,
    ``SEQFERRY_A_B``."""
    least: int | None = None
    most: int | None = None
    hidden: bool = False
    """True for an option that ``--help`` does not list."""
    http: Http | None = Http()
    """None: no field over HTTP. The option is about this machine, this process, or a form of the command line."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field of a group that is an option."""

    name: str
    type: Any
    """Type of the field, without its annotation."""
    default: Any
    option: Option


@cache
def option_fields(group: type[Any]) -> tuple[OptionField, ...]:
    """The fields of a group that have an ``Option``, in their order."""
    return tuple(_option_fields(group))


def _option_fields(group: type[Any]) -> Iterator[OptionField]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind, *notes = get_args(hints[field.name]) or (hints[field.name],)
        for note in notes:
            if isinstance(note, Option):
                yield OptionField(field.name, kind, field.default, note)
