"""Command lines of other tools as tables: which options there are, and what becomes of each.

An option is never ignored silently: it is applied, is known to have no effect here, or is refused with a message.
Options that the engine has by the same name and with the same values are passed on as they are: ``of_engine``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from seqferry.model.frozen import frozen

USAGE: Final = 252
"""Exit code of the AWS CLI for a command line that it does not understand."""


class RefusedError(Exception):
    """The command line asks for what is not known, or cannot be done. The text says what."""


@frozen
class Option:
    """One option.

    Attributes:
        name: under which a value is kept; empty for an option that changes nothing here.
        takes_value: a word follows it.
        refused: why it cannot be carried out; empty for one that can.
        harmless: values that change nothing here, of an option that is refused otherwise.
        sign: its values are rules that select, with this sign before each.
        pattern: what each of several values looks like; None for an option with one.
        is_passed_on: it is an argument of ``build_spec`` as it is.
    """

    name: str = ""
    takes_value: bool = False
    refused: str = ""
    harmless: tuple[str, ...] = ()
    sign: str = ""
    pattern: str | None = None
    is_passed_on: bool = False


OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "--sse": ("AES256", "aws:kms", "aws:kms:dsse", "none"),
    "--sse-c": ("AES256",),
    "--sse-c-copy-source": ("AES256",),
    "--request-payer": ("requester",),
}
"""Options whose value may be left out, each with the values that it takes, the default one first."""

_ALIKE: Final = 3
"""Letters at the beginning that distinguish a mistyped value from a path: ``aws``, ``AES-256``."""

_GRANT: Final = r"(read|readacl|writeacl|full)=\w+=.+"
_KEY_FILE: Final = r"fileb?://(.+)"


@dataclass(slots=True)
class ParsedArguments:
    """Words of a command line: operands in their order, options by name (those without a value as "")."""

    operands: list[str] = field(default_factory=list[str])
    options: dict[str, str] = field(default_factory=dict[str, str])
    passed_on: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of ``build_spec``."""

    def given(self, name: str) -> bool:
        return name in self.options


def parse(tool: str, words: Sequence[str], options: Mapping[str, Option]) -> ParsedArguments:
    """Split a command line; ``--name=value`` and ``--name value`` are the same. A single ``-`` is an operand.

    Raises:
        RefusedError: an option is not known, lacks its value, or cannot be carried out.
    """
    parsed = ParsedArguments()
    rest = complete(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            parsed.operands.append(word)
            continue
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None:
            known = ", ".join(sorted(option for option, facts in options.items() if not facts.refused))
            raise RefusedError(f"Unknown options: {name}. {tool} knows {known}.")
        if option.refused and not option.harmless:
            raise RefusedError(f"{tool} cannot carry out {name}: {option.refused}")
        if option.takes_value and not equals:
            value = next(rest, None)
            if value is None:
                raise RefusedError(f"{name}: expected one argument.")
        elif equals and not option.takes_value:
            raise RefusedError(f"{name} takes no value.")
        if option.refused and value not in option.harmless:
            raise RefusedError(f"{tool} cannot carry out {name} {value}: {option.refused}")
        _keep(parsed, option, value or "")
    return parsed


def _keep(parsed: ParsedArguments, option: Option, value: str) -> None:
    if not option.name:
        return
    if not option.is_passed_on:
        parsed.options[option.name] = value
    elif option.sign:
        parsed.passed_on.setdefault("rules", []).append(f"{option.sign} {value}")
    elif option.pattern is not None:
        parsed.passed_on.setdefault(option.name, []).append(value)
    else:
        parsed.passed_on[option.name] = value


def _is_value(word: str, values: Sequence[str]) -> bool:
    """True for one of the values, and for a word that begins as one does and is no path: a mistyped one, to refuse."""
    begin = word[:_ALIKE].lower()
    return word in values or (not {"/", "."} & set(word) and any(begin == value[:_ALIKE].lower() for value in values))


def complete(words: Sequence[str]) -> Iterator[str]:
    """The words with the value of each option in one word with it, where a value may be left out or several follow."""
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        following = rest[-1] if rest else ""
        if word in OPTIONAL:
            value = rest.pop() if _is_value(following, OPTIONAL[word]) else OPTIONAL[word][0]
            yield f"{word}={value}"
        elif word == "--grants" and re.fullmatch(_GRANT, following):
            while rest and re.fullmatch(_GRANT, rest[-1]):
                yield f"--grants={rest.pop()}"
        elif word == "--tags" and "=" not in following and len(rest) > 1:
            # The AWS CLI writes the key and the value of a tag as two words.
            yield f"--tags={rest.pop()}={rest.pop()}"
        elif word == "--":
            yield word
            yield from reversed(rest)
            return
        else:
            yield word


def key_file(option: str, written: str) -> str:
    """The file of a customer's key, which these tools take as ``fileb://FILE``, or as the key itself.

    Raises:
        RefusedError: the key itself is on the command line, where all users of the machine can read it.
    """
    found = re.fullmatch(_KEY_FILE, written)
    if found is None:
        raise RefusedError(f"{option}: a key on the command line can be read by others; write fileb://FILE.")
    return found[1]


def of_engine(*names: str) -> dict[str, Option]:
    """Options that are passed on as they are."""
    made: dict[str, Option] = {}
    for name in names:
        pattern = _GRANT if name == "--grants" else ".*" if name in ("--metadata", "--tags") else None
        made[name] = Option(name.removeprefix("--").replace("-", "_"), True, pattern=pattern, is_passed_on=True)
    return made


SELECTING: Final[dict[str, Option]] = {
    "--include": Option("rules", takes_value=True, sign="+", is_passed_on=True),
    "--exclude": Option("rules", takes_value=True, sign="-", is_passed_on=True),
}


FLAG: Final = Option()
"""Changes nothing here: what it turns off or on is so in any case."""

VALUE: Final = Option(takes_value=True)
"""The same, with a value."""


def refuse(why: str, *, takes_value: bool = True) -> Option:
    return Option(takes_value=takes_value, refused=why)


def value(name: str) -> Option:
    return Option(name, takes_value=True)


def flag(name: str) -> Option:
    return Option(name)
