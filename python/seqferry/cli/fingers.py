"""What people type who come from ``aws s3``, s5cmd, rclone or cp, put into Seqferry's words before it is parsed.

What must stay true: a word is only translated into what means the same. What has no equal is answered with what to
write instead, and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from seqferry.errors import UsageError

VERBS: Final = {
    "copy": ("cp",),
    "copyto": ("cp",),
    "get": ("cp",),
    "put": ("cp",),
    "list": ("ls",),
    "size": ("du",),
    "lsf": ("ls",),
    "version": ("--version",),
}
"""Verbs of others, each with what it means here."""

_COPIES: Final = frozenset({"cp", "sync"})
_LISTS: Final = frozenset({"ls"})

_BEFORE_THE_VERB: Final = {
    "--endpoint-url": 1,
    "--profile": 1,
    "--region": 1,
    "--json": 0,
    "--dry-run": 0,
    "--no-sign-request": 0,
    "--quiet": 0,
}
"""Options that may precede the verb, each with how many values it takes."""


class Meaning(NamedTuple):
    """An option of others.

    Attributes:
        ours: what it stands for; empty where it is what happens already.
        values: how many values it takes.
        of_value: its value in our form; None to take it as it is.
    """

    ours: tuple[str, ...] = ()
    values: int = 0
    of_value: Callable[[str], str] | None = None


def _mebibytes(value: str) -> str:
    """A part size of s5cmd, which counts in MiB."""
    return f"{value}MiB" if value.isdigit() and int(value) <= 5 * 1024 else value


OPTIONS: Final = {
    "--recursive": Meaning(),
    "-r": Meaning(),
    "-R": Meaning(),
    "--progress": Meaning(),
    "-P": Meaning(),
    "--show-progress": Meaning(),
    "-v": Meaning(),
    "--verbose": Meaning(),
    "--follow-symlinks": Meaning(),
    "--no-guess-mime-type": Meaning(),
    "--expected-size": Meaning(values=1),
    "--only-show-errors": Meaning(("--quiet",)),
    "--bwlimit": Meaning(("--max-bandwidth",), 1),
    "--transfers": Meaning(("--max-requests",), 1),
    "--concurrency": Meaning(("--max-requests",), 1),
    "--numworkers": Meaning(("--max-requests",), 1),
    "--ignore-existing": Meaning(("--if-exists", "skip")),
    "--no-clobber": Meaning(("--if-exists", "skip")),
    "--checksum": Meaning(("--verify", "checksum")),
    "--no-follow-symlinks": Meaning(("--symlinks", "skip")),
    "--destination-region": Meaning(("--target-region",), 1),
    "--part-size": Meaning(("--part-size",), 1, _mebibytes),
    "--min-age": Meaning(("--older-than",), 1),
    "--max-age": Meaning(("--newer-than",), 1),
}
"""Options of ``cp`` and ``sync`` under other names."""

ANSWERS: Final = {
    "--size-only": "objects of the same size may differ, and comparing ETags costs no more; leave it out.",
    "--exact-timestamps": "objects are compared by ETag or checksum, and times decide nothing; leave it out.",
    "--update": "objects are compared by ETag or checksum, not by age; --if-exists skip keeps what is at DST.",
    "--backup-dir": "nothing at DST is lost where its bucket keeps versions; --if-exists fail reports what is there.",
    "--no-verify-ssl": "connections are always verified; name your certificate with AWS_CA_BUNDLE=FILE.",
    "--retries": "requests are tried again by themselves; AWS_MAX_ATTEMPTS=N sets how often.",
    "--retry-count": "requests are tried again by themselves; AWS_MAX_ATTEMPTS=N sets how often.",
    "--flatten": "several sources of one folder, or a wildcard, name objects by what follows the last slash.",
    "--force-glacier-transfer": "an archived object is refused until it was restored; restore it first.",
}
"""Options that have no equal, each with what to do instead."""


def translated(arguments: list[str]) -> list[str]:
    """The arguments in our words.

    Raises:
        UsageError: an option has no equal.
    """
    before, rest = _split(arguments)
    if not rest:
        return arguments
    verb, given = rest[0], rest[1:]
    if verb == "cat" and len(given) >= 1:
        return ["cp", *before, *_options("cp", given), "-"]
    if verb in ("pipe", "rcat"):
        return ["cp", *before, "-", *_options("cp", given)]
    if verb == "help":
        return [*given, "--help"]
    ours = VERBS.get(verb, (verb,))
    if "-n" in given and ours[0] in _COPIES:
        given = _without_n(verb, given)
    return [*ours, *before, *_options(ours[0], given)]


def _without_n(verb: str, given: list[str]) -> list[str]:
    """The arguments without ``-n``: no overwriting in cp and s5cmd, a dry run in rclone and rsync."""
    if verb == "sync":
        raise UsageError("-n: for a dry run write --dry-run; to leave alone what is at DST write --if-exists skip.")
    meant = ("--if-exists", "skip") if verb == "cp" else ("--dry-run",)
    return [each for word in given for each in (meant if word == "-n" else (word,))]


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Options that precede the verb, and what follows them."""
    before: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, _ = rest[0].partition("=")
        name = "--dry-run" if name in ("-n", "--dryrun") else name
        values = _BEFORE_THE_VERB.get(name)
        if values is None:
            return [], arguments
        taken = 1 + (0 if equals else values)
        before += [name + rest[0][len(rest[0].partition("=")[0]) :], *rest[1:taken]]
        rest = rest[taken:]
    return before, rest


def _options(verb: str, arguments: list[str]) -> list[str]:
    if verb in _LISTS:
        return [word for word in arguments if word not in ("-l", "--long")]
    if verb not in _COPIES:
        return arguments
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*found, word, *words]
        name, equals, value = word.partition("=")
        if name in ANSWERS:
            raise UsageError(f"{name}: {ANSWERS[name]}")
        meaning = OPTIONS.get(name)
        found += [word] if meaning is None else _meant(word, meaning, value if equals else None, words)
    return found


def _meant(word: str, meaning: Meaning, value: str | None, rest: Iterator[str]) -> list[str]:
    if not meaning.values:
        return list(meaning.ours)
    if value is None:
        value = next(rest, None)
    if value is None:
        return list(meaning.ours) or [word]
    if not meaning.ours:
        return []
    return [*meaning.ours, value if meaning.of_value is None else meaning.of_value(value)]
