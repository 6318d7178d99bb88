"""Description of an option for all interfaces (CLI, HTTP): the annotation of a field of a group (``option_groups``).

A field that a spec holds has the type of the spec; ``OptionField`` has its type at an interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from seqferry.model.frozen import frozen

Notation = Literal["size", "bandwidth", "pairs", "moment"]
"""Form of a value on the command line: ``64MiB``, ``200MiB`` or a timetable, ``NAME=VALUE``, a time or an age to come.

Over HTTP a size is a number of bytes, and pairs are an object.
"""


@frozen(kw_only=True)
class Http:
    """Form of an option over HTTP, besides its name, type and default."""

    text: str | None = None
    """Description. None: the help of the command line."""
    maximum: int | None = None
    """Largest number. None: that of the option."""
    max_length: int | None = None
    """Longest text, or longest text of a list; such a text is not empty. None: no bound of its own."""
    max_items: int | None = None
    """Longest list, or largest number of pairs. None: no bound of its own."""
    example: object = None


@frozen
class Option:
    """The description of an option, for the annotation of its field. The field has its type and default."""

    help: str | None = None
    metavar: str | None = None
    notation: Notation | None = None
    _: KW_ONLY
    words: tuple[str, ...] = ()
    """Names on the command line; empty: ``--a-b`` of the field ``a_b``. The first one names the environment variable,
    ``SEQFERRY_A_B``."""
    minimum: int | None = None
    maximum: int | None = None
    hidden: bool = False
    """True for an option that ``--help`` does not list."""
    common: bool = False
    """True for an option that ``-h`` shows for a command with many options."""
    of_interface: bool = False
    """True for an option of the interface or the process, which is no argument of a spec."""
    http: Http | None = Http()
    """None: no field over HTTP. The option is about this machine, this process, or a form of the command line."""


_LABELS: Final = {
    "if_exists": "If it exists",
    "max_bandwidth": "Bytes per second",
    "max_requests": "Requests in flight",
    "new": "Allow a duplicate transfer",
    "raw": "No wildcards",
    "settle": "Minimum age",
    "sse": "Encryption",
    "tpslimit": "Requests per second",
}
"""Labels that the names of their options do not make."""
_ACRONYMS: Final = {word: word.upper() for word in ("acl", "id", "kms", "sse", "url")}


def label(name: str) -> str:
    """The label of an option in a form, and in texts for its readers: ``Storage class`` of ``storage_class``."""
    text = " ".join(_ACRONYMS.get(word, word) for word in name.split("_")).replace("SSE c ", "SSE-C ")
    return _LABELS.get(name) or text[:1].upper() + text[1:]


@frozen
class OptionField:
    """A field of a group that is an option."""

    name: str
    type: Any
    """Type at the interfaces, without its annotation: several texts are a list, or nothing."""
    default: Any
    """Default at the interfaces."""
    option: Option
    kept: Any
    """Type of the field itself."""
    kept_default: Any


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
                several = is_of_texts(kind)
                yield OptionField(
                    field.name,
                    list[str] | None if several else kind,
                    None if several else field.default,
                    note,
                    kind,
                    field.default,
                )


def is_of_texts(kind: Any) -> bool:
    """True of the type of a field that holds several texts."""
    return any(get_origin(one) is tuple and get_args(one)[0] is str for one in (kind, *get_args(kind)))
