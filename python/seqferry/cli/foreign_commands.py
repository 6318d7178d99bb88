"""Translation of commands in the words of ``aws s3``, s5cmd, rclone or cp, before they are parsed.

What must stay true: a word is only translated into what means the same. What has no equal is answered with what to
write instead, and never guessed. The tables are in ``foreign_options``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from seqferry.model import foreign_options
from seqferry.model.errors import UsageError
from seqferry.model.foreign_options import OPTIONS, REFUSALS, VERB_REFUSALS, VERBS, Meaning, complete

__all__ = ["OPTIONS", "REFUSALS", "VERBS", "translate"]

_UNTRANSLATED: Final = frozenset({"aws", "s5cmd", "nextflow", "cost", "bench", "unpack", "tar", "cache", "demo"})
"""Verbs whose options are taken as they are."""

_CAT_OPTIONS: Final = (
    "--range",
    "--version-id",
    "--head",
    "--tail",
    "--offset",
    "--count",
    "-h",
    "--help",
    "--help-env",
)
"""Options of ``cat`` that a copy to standard output does not have."""


def translate(arguments: list[str]) -> list[str]:
    """The arguments as Seqferry's options.

    Raises:
        UsageError: a word has no equal.
    """
    before, rest = _split(arguments)
    if rest[:1] == ["s3"] and len(rest) > 1:  # aws s3 cp
        rest = rest[1:]
    if not rest:
        return arguments
    verb, given = rest[0], rest[1:]
    if verb in VERB_REFUSALS:
        raise UsageError(f"{verb}: {VERB_REFUSALS[verb]}")
    if verb == "help":
        return [*given, "--help"]
    if verb == "cat" and given and not any(word.partition("=")[0] in _CAT_OPTIONS for word in given):
        # Standard error stays for errors, as with cat; a copy says how it was verified.
        quiet = [] if _is_verbose(before, given) else ["--quiet"]
        return ["cp", *quiet, *_move_after_verb("cp", before), *_options("cp", "cp", given), "-"]
    if verb in ("pipe", "rcat"):
        return ["cp", *_move_after_verb("cp", before), "-", *_options(verb, "cp", given)]
    ours = VERBS.get(verb, (verb,))
    if ours[0] in foreign_options.COPY_VERBS | foreign_options.LIST_VERBS:
        # Values that the AWS CLI lets people leave out, as in the shims.
        given = list(complete(given))
    if "-n" in given and ours[0] in foreign_options.COPY_VERBS:
        given = _without_n(verb, given)
    if not before and ours == (verb,) and ours[0] in _UNTRANSLATED:
        return [verb, *given]
    return [*ours, *_move_after_verb(ours[0], before), *_options(verb, ours[0], given)]


def _without_n(verb: str, given: list[str]) -> list[str]:
    """The arguments without ``-n``: no overwriting in cp and s5cmd, a dry run in rclone and rsync."""
    if verb == "sync":
        raise UsageError("-n: for a dry run write --dry-run; to leave alone what is at DST write --if-exists skip.")
    meant = ("--if-exists", "skip") if verb in ("cp", "mv") else ("--dry-run",)
    return [each for word in given for each in (meant if word == "-n" else (word,))]


def _is_verbose(before: list[list[str]], given: list[str]) -> bool:
    options = given[: given.index("--")] if "--" in given else given
    return any(word in foreign_options.VERBOSE for word in (*(option[0] for option in before), *options))


def _split(arguments: list[str]) -> tuple[list[list[str]], list[str]]:
    """Options that precede the verb, each with its values, and what follows them."""
    before: list[list[str]] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, _ = rest[0].partition("=")
        ours = foreign_options.BEFORE_NAMES.get(name, name)
        if ours in REFUSALS and ours not in foreign_options.BEFORE_THE_VERB:
            raise UsageError(f"{name}: {REFUSALS[ours]}")
        values = foreign_options.BEFORE_THE_VERB.get(ours)
        if values is None:
            return [], arguments
        taken = 1 + (0 if equals else values)
        before.append([ours + rest[0][len(name) :], *rest[1:taken]])
        rest = rest[taken:]
    return before, rest


def _move_after_verb(verb: str, before: list[list[str]]) -> list[str]:
    """Options that preceded the verb, as those that follow it; without those that say nothing to it."""
    found: list[str] = []
    for option in before:
        name = option[0].partition("=")[0]
        if name in foreign_options.IGNORED or (
            name in foreign_options.ONLY_FOR_COPIES and verb not in foreign_options.COPY_VERBS
        ):
            continue
        found += _options(verb, verb, option)
    return found


def _options(typed: str, verb: str, arguments: list[str]) -> list[str]:
    """Seqferry's options for those of a verb, which may have been ``typed`` under another name."""
    if verb in _UNTRANSLATED or verb not in foreign_options.TRANSLATED_VERBS:
        return arguments
    known, refusals = _meanings_of(verb, typed), _refusals(verb)
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            return [*found, word, *rest]
        name, equals, value = word.partition("=")
        if name in refusals and name not in known:
            raise UsageError(f"{name}: {refusals[name]}")
        if verb == "mount" and name.startswith("-o") and not name.startswith("--"):
            found += _of_list(word[2:] or next(rest, ""))
            continue
        meaning = known.get(name)
        found += [word] if meaning is None else _translate(word, meaning, value if equals else None, rest)
    return found


def _meanings_of(verb: str, typed: str) -> Mapping[str, Meaning]:
    if verb != "mount":
        return foreign_options.options_of_verb(verb, typed)
    from seqferry.cli import foreign_mount_options  # other verbs need not wait for it

    return {**foreign_options.GLOBAL, **foreign_mount_options.MEANINGS}


def _refusals(verb: str) -> Mapping[str, str]:
    if verb != "mount":
        return foreign_options.refusals_of_verb(verb)
    from seqferry.cli import foreign_mount_options

    return {**REFUSALS, **foreign_mount_options.REFUSALS}


def _of_list(options: str) -> list[str]:
    from seqferry.cli import foreign_mount_options

    return foreign_mount_options.translate_list(options)


def _translate(word: str, meaning: Meaning, value: str | None, rest: Iterator[str]) -> list[str]:
    if not meaning.values:
        return list(meaning.ours)
    if value is None:
        value = next(rest, None)
    if value is None:
        return list(meaning.ours) or [word]
    if meaning.into is not None:
        return meaning.into(value)
    if not meaning.ours:
        return []
    of_value: Callable[[str], str] | None = meaning.of_value
    return [*meaning.ours, value if of_value is None else of_value(value)]
