"""What the arguments of ``cp`` and ``sync`` select, as the arguments of ``build_spec``.

What must stay true: names of keys are taken as they are; nothing is decoded, and no line of a list is passed over.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from seqferry.cli import display
from seqferry.cli.groups import Places, merged
from seqferry.errors import UsageError
from seqferry.selection import only_includes
from seqferry.spec import MAX_KEYS, is_s3_uri

RULES: Final = {"--include": "+", "--exclude": "-"}
"""Options whose order counts. They become values of ``--rule``; excludes of the environment go first."""


def in_order(arguments: list[str]) -> list[str]:
    """The arguments with ``--include`` and ``--exclude`` as rules of one option, which keeps their order."""
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            return [*found, word, *rest]
        name, equals, value = word.partition("=")
        sign = RULES.get(name)
        if sign is None:
            found.append(word)
        elif equals:
            found.append(f"--rule={sign} {value}")
        else:
            pattern = next(rest, None)
            found += [word] if pattern is None else [f"--rule={sign} {pattern}"]
    return found


def asked(places: Places, *groups: Any) -> dict[str, Any]:
    """The arguments of ``build_spec``.

    Raises:
        UsageError: the sources do not lie together, or the list of keys cannot be read.
    """
    given = merged(places, *groups)
    given["source"] = places.source
    sources: list[str] = given.pop("sources")
    files_from: str | None = given.pop("files_from")
    rules = [f"- {pattern}" for pattern in given.pop("exclude") or ()]
    rules += [f"+ {pattern}" for pattern in given.pop("include") or ()]
    rules += given["rules"] or ()
    given["rules"] = rules or None
    if rules and only_includes(rules):
        display.say("--include brings back what an --exclude before it leaves out, and selects nothing by itself.")
        display.say("For only those objects write: --exclude '*' --include PATTERN")
    if files_from is not None:
        if len(sources) > 1:
            raise UsageError("--files-from names objects below one source; give one.")
        given["keys"] = _listed(files_from)
    elif len(sources) > 1:
        given["source"], given["keys"] = _together(sources)
    return given


def _together(sources: list[str]) -> tuple[str, list[str]]:
    """The folder or prefix that holds all sources, and their names in it."""
    folders = {source.rpartition("/")[0] for source in sources}
    if len(folders) > 1 or "-" in sources:
        raise UsageError(
            "Several sources have to lie directly in one folder or prefix, since each keeps its name. Copy the folder "
            "with --exclude '*' --include PATTERN, or use one command for each."
        )
    for source in sources:
        if source.endswith("/") or (not is_s3_uri(source) and os.path.isdir(source)):  # noqa: PTH112
            raise UsageError(
                f"'{source}' is a folder beside other sources; copy it with a command of its own, or copy the folder "
                "above it with --exclude and --include."
            )
    folder = folders.pop()
    names = [source.rpartition("/")[2] for source in sources]
    if is_s3_uri(sources[0]):
        return f"{folder}/", names
    for source in sources:
        if not os.path.lexists(source):
            raise UsageError(f"There is no file '{source}'.")
    return f"{folder}/" if folder or sources[0].startswith("/") else "./", names


def _listed(name: str) -> list[str]:
    """The keys of a list, one on a line."""
    found: dict[str, None] = {}
    try:
        with sys.stdin if name == "-" else open(name, encoding="utf-8", newline="\n") as lines:  # noqa: PTH123
            for number, line in enumerate(lines, 1):
                key = line.removesuffix("\n").removesuffix("\r")
                if not key:
                    continue
                if is_s3_uri(key):
                    raise UsageError(f"{name}, line {number}: '{key}' is a whole address; write the key below SRC.")
                found[key] = None
                if len(found) > MAX_KEYS:
                    raise UsageError(f"{name}, line {number}: at most {MAX_KEYS:,} keys can be named at once.")
    except UnicodeDecodeError as why:
        raise UsageError(f"{name} is not valid UTF-8 ({why.reason} at byte {why.start}).") from None
    except OSError as why:
        raise UsageError(f"Cannot read the list '{name}': {why.strerror or why}.") from None
    if not found:
        raise UsageError(f"{name} names no object.")
    return list(found)
