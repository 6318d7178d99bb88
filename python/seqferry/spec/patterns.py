"""Patterns that people write: wildcards, and regular expressions of rules that rename.

The engine matches them, in time linear in a name and without the lock of the interpreter where that is long. Nothing
else may: a client of a server could keep it busy with one pattern of ``re`` or ``fnmatch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, cast

from seqferry.model.errors import UsageError

MAX_RULES: Final = 1000
"""Wildcards of one list: rules to include and to exclude."""

_HALVES: Final = {code: 0x10F800 + code - 0xD800 for code in range(0xD800, 0xE000)}
"""Halves of characters, which stand for bytes that are no UTF-8, as characters that no name has."""
_WHOLE: Final = {to: code for code, to in _HALVES.items()}


class Wildcards:
    """Wildcards of which the last one that matches a whole name decides.

    Args:
        rules: each with whether it includes.
        dialect: of ``key`` (``*``, ``?``), ``path`` (only ``**`` crosses slashes), ``rule`` (as key, and ``[a-z]``).
        option: what errors name.

    Raises:
        UsageError: there are too many, or they are too long.
    """

    def __init__(
        self, rules: Sequence[tuple[bool, str]], dialect: Literal["key", "path", "rule"], option: str = "A wildcard"
    ) -> None:
        # Imported here: a command without patterns need not wait for the engine.
        from seqferry import _native

        if len(rules) > MAX_RULES:
            raise UsageError(f"{option}: at most {MAX_RULES:,} rules can be given, and these are {len(rules):,}.")
        try:
            self._rules = _native.Wildcards([(includes, _as_text(rule)) for includes, rule in rules], dialect)
        except ValueError as why:
            what, number, most = cast("tuple[str, int, int]", why.args)
            if what == "list":
                raise UsageError(f"{option}: all rules together have more than {most:,} characters.") from None
            begin = _show(rules[number][1][:40])
            raise UsageError(f"{option}: '{begin}...' has more than {most:,} characters.") from None

    def decide(self, name: str) -> bool | None:
        """The decision of the last rule that matches; None when none does."""
        return self._rules.decide(_as_text(name))


class RenameRule(NamedTuple):
    """One rule that renames.

    Attributes:
        written: as the user wrote it, for errors.
        pattern: a regular expression of Python.
        replacement: texts, and numbers of groups.
        ignores_case: upper and lower case are alike.
        is_global: every match is replaced, else the first one.
    """

    written: str
    pattern: str
    replacement: tuple[str | int, ...]
    ignores_case: bool
    is_global: bool


class RenameRules:
    """Rules that rename, applied one after another.

    Raises:
        UsageError: a pattern is none, asks for what does not take linear time, or is too big.
    """

    def __init__(self, rules: Sequence[RenameRule]) -> None:
        from seqferry import _native

        self._written = [rule.written for rule in rules]
        compiled = [
            (
                _as_text(rule.pattern),
                [_as_text(piece) if isinstance(piece, str) else piece for piece in rule.replacement],
                rule.ignores_case,
                rule.is_global,
            )
            for rule in rules
        ]
        try:
            self._rules = _native.RenameRules(compiled)
        except ValueError as why:
            raise self._rule_error(*why.args) from None

    def rename(self, name: str) -> str:
        """The name after all rules.

        Raises:
            UsageError: a name gets too long, or the rules take far too long.
        """
        try:
            return _restore_text(self._rules.renamed(_as_text(name)))
        except ValueError as why:
            kind, *facts = why.args
            if kind == "name":
                raise UsageError(
                    f"--rename makes a name of more than {facts[0]:,} bytes of '{_show(name[:80])}', which no storage "
                    "takes; change the rules."
                ).about("rename") from None
            raise UsageError(
                f"--rename: the rules took {facts[0] / 1000:.1f} s for {facts[1]:,} names and were given up; write "
                "patterns that match less of a name, or leave out the flag g."
            ).about("rename") from None

    def _rule_error(self, kind: str, number: int = 0, *facts: str | int) -> UsageError:
        if kind == "list":
            return UsageError(
                "--rename: all rules together are too big; make the counts of their patterns smaller."
            ).about("rename")
        rule = f"--rename '{_show(self._written[number])}'"
        if kind == "group":
            return UsageError(f"{rule}: the replacement names group {facts[0]}, and the pattern has {facts[1]}.").about(
                "rename"
            )
        return UsageError(f"{rule}: the pattern is not a regular expression that can be used: {facts[0]}.").about(
            "rename"
        )


def _as_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_HALVES)
    return text


def _restore_text(text: str) -> str:
    return text if text.isascii() else text.translate(_WHOLE)


def _show(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
