"""Rules that rename: ``s/PATTERN/REPLACEMENT/FLAGS`` as sed has them, with the regular expressions of Python.

A rule is applied to the name of an object below its source. ``&`` and ``\\0`` stand for the whole match, ``\\1`` to
``\\9`` for groups; the flags are ``g`` (every match, else the first one) and ``i`` (upper and lower case are alike).

What must stay true: the same name gives the same result in every process; a rule takes linear time in what it may meet,
so that a client of a server cannot keep it busy. The engine sees to that (``patterns``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.option_groups import MAX_RENAME_RULES
from seqferry.spec.patterns import RenameRule, RenameRules

_MAX_RULE: Final = 1000
"""Characters of a rule: longer ones are mistakes."""

_FORM: Final = "write 's/PATTERN/REPLACEMENT/', with the flags g and i after it where they are needed"
_FLAGS: Final = {"g", "i"}
_DIGITS: Final = "0123456789"


def check(rules: Sequence[str]) -> None:
    """Raise UsageError when a rule is none, or cannot be used."""
    if rules:
        _compile(tuple(rules))


def rename(rules: tuple[str, ...], name: str) -> str:
    """The name after all rules, one after another.

    Raises:
        UsageError: a rule cannot be used, or not for this name.
    """
    return _compile(rules).rename(name)


@lru_cache(maxsize=4)  # a list of rules may take some megabytes
def _compile(rules: tuple[str, ...]) -> RenameRules:
    if len(rules) > MAX_RENAME_RULES:
        raise UsageError(f"--rename: at most {MAX_RENAME_RULES} rules can be given, and these are {len(rules)}.").about(
            "rename"
        )
    return RenameRules([_parse(rule) for rule in rules])


def _parse(rule: str) -> RenameRule:
    pattern, replacement, flags = _split(rule)
    return RenameRule(rule, pattern, _pieces(rule, replacement), "i" in flags, "g" in flags)


def _split(rule: str) -> tuple[str, str, str]:
    """Pattern, replacement and flags of a rule, whose delimiter is the character after ``s``."""
    if len(rule) > _MAX_RULE:
        raise UsageError(f"--rename: a rule has at most {_MAX_RULE} characters; this one has {len(rule)}.").about(
            "rename"
        )
    if len(rule) < 2 or rule[0] != "s" or rule[1].isalnum() or rule[1] in "\\ \n":
        raise UsageError(f"--rename '{rule}' is not a rule; {_FORM}.").about("rename")
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
        raise UsageError(f"--rename '{rule}' does not have three '{delimiter}'; {_FORM}.").about("rename")
    pattern, replacement = parts
    if not pattern:
        raise UsageError(f"--rename '{rule}': the pattern is empty; {_FORM}.").about("rename")
    if (unknown := sorted(set(part) - _FLAGS)) or len(set(part)) != len(part):
        raise UsageError(f"--rename '{rule}': '{''.join(unknown) or part}' is not a flag; {_FORM}.").about("rename")
    return pattern, replacement, part


def _pieces(rule: str, replacement: str) -> tuple[str | int, ...]:
    """Texts of a replacement, and numbers of groups."""
    pieces: list[str | int] = []
    for found in re.finditer(r"\\(.)|(&)|([^\\&]+)", replacement, re.DOTALL):
        escaped, whole, text = found.groups()
        if whole:
            pieces.append(0)
        elif text:
            pieces.append(text)
        elif escaped in _DIGITS:
            pieces.append(int(escaped))
        elif escaped in "\\&":
            pieces.append(escaped)
        else:
            raise UsageError(
                f"--rename '{rule}': '\\{escaped}' has no meaning in a replacement; write \\1 to \\9 or &."
            ).about("rename")
    return tuple(pieces)
