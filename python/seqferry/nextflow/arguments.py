"""Command lines of other tools, read by the options that ``model.foreign_options`` knows of each.

An option is never ignored silently: it is applied, is known to have no effect here, or is refused with a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from seqferry.model.foreign_options import Meaning, complete

USAGE: Final = 252
"""Exit code of the AWS CLI for a command line that it does not understand."""

_RULES: Final = {"include": "+", "exclude": "-"}
_LISTS: Final = frozenset({"grants", "metadata", "tags"})
_PLACES: Final = frozenset({"region", "source_region", "target_region", "profile", "endpoint_url"})
_KEY_FILE: Final = re.compile(r"fileb?://(.+)")


class RefusedError(Exception):
    """The command line asks for what is not known, or cannot be done. The text says what."""


@dataclass(slots=True)
class ParsedArguments:
    """Words of a command line: operands in their order, and options by the names that ``build_spec`` has for them."""

    operands: list[str] = field(default_factory=list[str])
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def given(self, name: str) -> bool:
        return name in self.options

    def without(self, *names: str) -> dict[str, Any]:
        """Options that ``build_spec`` takes: without these, and without empty names of places."""
        return {
            name: value for name, value in self.options.items() if name not in names and (value or name not in _PLACES)
        }


def parse(tool: str, words: Sequence[str], options: Mapping[str, Meaning]) -> ParsedArguments:
    """Split a command line; ``--name=value`` and ``--name value`` are the same. A single ``-`` is an operand.

    Raises:
        RefusedError: an option is not known, lacks its value, or cannot be carried out.
        UsageError: a value cannot be carried out.
    """
    parsed = ParsedArguments()
    rest = complete(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            parsed.operands.append(word)
            continue
        name, equals, value = word.partition("=")
        meaning = options.get(name)
        if meaning is None:
            known = ", ".join(sorted(option for option, facts in options.items() if not facts.refused))
            raise RefusedError(f"Unknown options: {name}. {tool} knows {known}.")
        if meaning.refused:
            raise RefusedError(f"{tool} cannot carry out {name}: {meaning.refused}")
        if meaning.values and not equals:
            value = next(rest, None)
            if value is None:
                raise RefusedError(f"{name}: expected one argument.")
        elif equals and not meaning.values:
            raise RefusedError(f"{name} takes no value.")
        _keep(parsed.options, meaning, value or "")
    return parsed


def _keep(options: dict[str, Any], meaning: Meaning, value: str) -> None:
    if meaning.into is not None:
        meaning.into(value)
    if not meaning.ours:
        return
    name = meaning.ours[0].removeprefix("--").replace("-", "_")
    if name in _RULES:
        options.setdefault("rules", []).append(f"{_RULES[name]} {value}")
    elif name in _LISTS:
        options.setdefault(name, []).append(value)
    elif not meaning.values:
        options[name] = meaning.ours[1] if meaning.ours[1:] else True
    else:
        options[name] = value if meaning.of_value is None else meaning.of_value(value)


def key_file(option: str, written: str) -> str:
    """The file of a customer's key, which these tools take as ``fileb://FILE``, or as the key itself.

    Raises:
        RefusedError: the key itself is on the command line, where all users of the machine can read it.
    """
    found = _KEY_FILE.fullmatch(written)
    if found is None:
        raise RefusedError(f"{option}: a key on the command line can be read by others; write fileb://FILE.")
    return found[1]


def refuse(why: str, values: int = 1) -> Meaning:
    """An option that one of these tools cannot carry out here."""
    return Meaning(values=values, refused=why)
