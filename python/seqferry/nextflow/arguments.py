"""Command lines of other tools as tables: which options there are, and what becomes of each.

An option is never dropped in silence: it is carried out, it is known to change nothing here, or it is refused in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

USAGE: Final = 252
"""Exit code of the AWS CLI for a command line that it does not understand."""


class RefusedError(Exception):
    """The command line asks for what is not known, or cannot be done. The text says what."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: under which a value is kept; empty for an option that changes nothing here.
        takes_value: a word follows it.
        refused: why it cannot be carried out; empty for one that can.
    """

    name: str = ""
    takes_value: bool = False
    refused: str = ""


@dataclass(slots=True)
class ParsedArguments:
    """Words of a command line: operands in their order, options by name (those without a value as "")."""

    operands: list[str] = field(default_factory=list[str])
    options: dict[str, str] = field(default_factory=dict[str, str])

    def given(self, name: str) -> bool:
        return name in self.options


def parse(tool: str, words: Sequence[str], options: Mapping[str, Option]) -> ParsedArguments:
    """Split a command line; ``--name=value`` and ``--name value`` are the same. A single ``-`` is an operand.

    Raises:
        RefusedError: an option is not known, lacks its value, or cannot be carried out.
    """
    parsed = ParsedArguments()
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            parsed.operands.append(word)
            continue
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None:
            known = ", ".join(sorted(option for option, facts in options.items() if not facts.refused))
            raise RefusedError(f"Unknown options: {name}. {tool} knows {known}.")
        if option.refused:
            raise RefusedError(f"{tool} cannot carry out {name}: {option.refused}")
        if option.takes_value and not equals:
            value = next(rest, None)
            if value is None:
                raise RefusedError(f"{name}: expected one argument.")
        elif equals and not option.takes_value:
            raise RefusedError(f"{name} takes no value.")
        if option.name:
            parsed.options[option.name] = value or ""
    return parsed


FLAG: Final = Option()
"""Changes nothing here: what it turns off or on is so in any case."""


def refused(why: str, *, takes_value: bool = True) -> Option:
    return Option(takes_value=takes_value, refused=why)


def value(name: str) -> Option:
    return Option(name, takes_value=True)


def flag(name: str) -> Option:
    return Option(name)
