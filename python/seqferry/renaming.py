"""Rules that rename: ``s/PATTERN/REPLACEMENT/FLAGS`` as sed has them, with the regular expressions of Python.

A rule is applied to the name of an object below its source. ``&`` and ``\\0`` stand for the whole match, ``\\1`` to
``\\9`` for groups; the flags are ``g`` (every match, else the first one) and ``i`` (upper and lower case are alike).

What must stay true: the same name gives the same result in every process; a rule takes linear time in what it may meet,
so that a client of a server cannot keep it busy: repetitions within repetitions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from seqferry.errors import UsageError

MAX_RULES: Final = 100
_MAX_RULE: Final = 1000
"""Characters of a rule: longer ones are mistakes."""

_FORM: Final = "write 's/PATTERN/REPLACEMENT/', with the flags g and i after it where they are needed"
# A group that holds an unbounded repetition and is itself repeated without bound: the classic exponential case.
_REPEATED_GROUP: Final = re.compile(r"\)(?:[*+]|\{\d*,\d*\})")
_REPETITION: Final = re.compile(r"[*+|]|\{\d*,\d*\}")
_ESCAPED: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)

Rename = Callable[[str], str]


def check(rules: Sequence[str]) -> None:
    """Raise UsageError when a rule is none."""
    if len(rules) > MAX_RULES:
        raise UsageError(f"--rename: at most {MAX_RULES} rules can be given.")
    for rule in rules:
        _compiled(rule)


def renamed(rules: tuple[str, ...], name: str) -> str:
    """The name after all rules, one after another."""
    for rule in rules:
        name = _compiled(rule)(name)
    return name


@lru_cache(maxsize=2 * MAX_RULES)
def _compiled(rule: str) -> Rename:
    pattern, replacement, flags = _split(rule)
    _check_repetitions(rule, pattern)
    try:
        expression = re.compile(pattern, re.IGNORECASE if "i" in flags else 0)
    except (re.error, OverflowError, RecursionError) as why:
        raise UsageError(f"--rename '{rule}': the pattern is not a regular expression: {why}.") from None
    pieces = _pieces(rule, replacement, expression.groups)
    count = 0 if "g" in flags else 1

    def expand(match: re.Match[str]) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)

    return lambda name: expression.sub(expand, name, count=count)


def _split(rule: str) -> tuple[str, str, str]:
    """Pattern, replacement and flags of a rule, whose delimiter is the character after ``s``."""
    if len(rule) > _MAX_RULE:
        raise UsageError(f"--rename: a rule has at most {_MAX_RULE} characters; this one has {len(rule)}.")
    if len(rule) < 2 or rule[0] != "s" or rule[1].isalnum() or rule[1] in "\\ \n":
        raise UsageError(f"--rename '{rule}' is not a rule; {_FORM}.")
    delimiter = rule[1]
    parts, part, escaped = list[str](), "", False
    for character in rule[2:]:
        if escaped:
            part += character if character == delimiter else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == delimiter and len(parts) < 2:
            parts.append(part)
            part = ""
        else:
            part += character
    if escaped or len(parts) != 2:
        raise UsageError(f"--rename '{rule}' does not have three '{delimiter}'; {_FORM}.")
    pattern, replacement = parts
    if not pattern:
        raise UsageError(f"--rename '{rule}': the pattern is empty; {_FORM}.")
    if (unknown := sorted(set(part) - {"g", "i"})) or len(set(part)) != len(part):
        raise UsageError(f"--rename '{rule}': '{''.join(unknown) or part}' is not a flag; {_FORM}.")
    return pattern, replacement, part


def _check_repetitions(rule: str, pattern: str) -> None:
    """Refuse a repeated group that holds a repetition or alternatives: such patterns can take hours on one name."""
    plain = _ESCAPED.sub(lambda found: "_" * len(found[0]), pattern)
    opened: list[int] = []
    for at, character in enumerate(plain):
        if character == "(":
            opened.append(at)
        elif character == ")" and opened:
            inside = plain[opened.pop() + 1 : at]
            if _REPEATED_GROUP.match(plain, at) and _REPETITION.search(inside):
                raise UsageError(
                    f"--rename '{rule}': '{pattern[: at + 2]}' repeats a group that holds a repetition or "
                    "alternatives, which can take hours on one name; write it without one of them."
                )


def _pieces(rule: str, replacement: str, groups: int) -> list[str | int]:
    """Texts of a replacement, and numbers of groups."""
    pieces: list[str | int] = []
    for found in re.finditer(r"\\(.)|(&)|([^\\&]+)", replacement, re.DOTALL):
        escaped, whole, text = found.groups()
        if whole:
            pieces.append(0)
        elif text:
            pieces.append(text)
        elif escaped.isdigit():
            if int(escaped) > groups:
                raise UsageError(
                    f"--rename '{rule}': the replacement names group {escaped}, and the pattern has {groups}."
                )
            pieces.append(int(escaped))
        elif escaped in "\\&":
            pieces.append(escaped)
        else:
            raise UsageError(
                f"--rename '{rule}': '\\{escaped}' has no meaning in a replacement; write \\1 to \\9 or &."
            )
    return pieces
