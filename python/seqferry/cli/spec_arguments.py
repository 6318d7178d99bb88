"""Arguments of ``build_spec`` from those of ``cp``, ``sync``, ``pack`` and ``unpack``.

What must stay true: names of keys are taken as they are; nothing is decoded, and no line of a list is passed over.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from seqferry.cli.option_groups import SourcesAndTarget, merge
from seqferry.cli.output import display
from seqferry.model.errors import UsageError
from seqferry.spec import key_lists
from seqferry.spec.addresses import is_s3_uri
from seqferry.spec.option_groups import ListFormat
from seqferry.spec.selection import has_wildcard, only_includes

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine

RULES: Final = {"--include": "+", "--exclude": "-"}
"""Options whose order counts. They become values of ``--rule``; excludes of the environment go first."""


def with_rules(arguments: list[str]) -> list[str]:
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


def build(places: SourcesAndTarget, *groups: Any, together: bool = False, below: bool = False) -> dict[str, Any]:
    """The arguments of ``build_spec``.

    Args:
        together: several sources have to lie in one folder or prefix, and are its keys.
        below: the source is a prefix or a folder in any case, so that --recursive says nothing new.

    Raises:
        UsageError: a source is not there, or the list of keys cannot be read.
        StorageError: with --recursive, a source cannot be looked up.
    """
    given = merge(places, *groups)
    recursive = given.pop("recursive", False) and not (together or below)
    given["source"] = places.source
    sources: list[str] = given.pop("sources")
    if len(sources) > 1 and given["files_from"] is not None:
        raise UsageError("--files-from names objects below one source; give one.")
    set_keys(given)
    if len(sources) > 1 and together:
        given["source"], given["keys"] = _names_in_folder(sources)
    elif len(sources) > 1:
        _check_several(sources)
        given["source"] = sources
    if recursive and "-" not in (*sources, places.target):
        given["source"] = _with_prefixes(given)
    return given


def _with_prefixes(given: dict[str, Any]) -> str | list[str]:
    """The sources, with a last slash at each that is a prefix."""
    sources = [given["source"]] if isinstance(given["source"], str) else given["source"]
    if not any(is_s3_uri(source) and not source.endswith("/") for source in sources):
        return given["source"]
    from seqferry.preflight import start  # it brings the engine, which --help need not wait for

    return start.resolve_prefixes(_engine(), given)


@cache
def _engine() -> Engine:
    from seqferry.engine.engine import Engine
    from seqferry.settings.config import Settings

    return Engine.of(Settings.load(with_tables=False))


def set_keys(given: dict[str, Any]) -> None:
    """Make ``rules`` and ``keys`` of the options that name objects, or members of an archive.

    Raises:
        UsageError: the list of keys cannot be read.
    """
    files_from: str | None = given.pop("files_from")
    rules = [f"- {pattern}" for pattern in given.pop("exclude") or ()]
    rules += [f"+ {pattern}" for pattern in given.pop("include") or ()]
    rules += given["rules"] or ()
    given["rules"] = rules or None
    if rules and only_includes(rules):
        display.say("--include re-includes keys that an earlier --exclude has excluded. Alone it has no effect.")
        display.say("To copy only these objects write: --exclude '*' --include PATTERN")
    form: ListFormat = given.pop("files_format")
    if files_from is not None:
        given |= _arguments_of_list(files_from, form)


def _names_in_folder(sources: list[str]) -> tuple[str, list[str]]:
    """The folder or prefix that holds all sources, and their names in it."""
    folders = {source.rpartition("/")[0] for source in sources}
    if len(folders) > 1 or "-" in sources:
        raise UsageError(
            "Several sources of an archive have to lie directly in one folder or prefix. Pack the folder "
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
            raise UsageError(f"There is no file '{source}'; check its path, or write s3://bucket/key.")
    return f"{folder}/" if folder or sources[0].startswith("/") else "./", names


def _check_several(sources: list[str]) -> None:
    if "-" in sources:
        raise UsageError("- (standard input) must be the only source; use another command for the others.")
    for source in sources:
        if not is_s3_uri(source) and "://" not in source and not os.path.lexists(source) and not has_wildcard(source):
            raise UsageError(f"There is no file '{source}'; check its path, or write s3://bucket/key.")


def _arguments_of_list(name: str, asked: ListFormat) -> dict[str, Any]:
    """Arguments of ``build_spec`` for the objects that a list or an inventory names."""
    form = key_lists.detect_format(name, asked)
    if form == "inventory":
        if not is_s3_uri(name):
            raise UsageError(f"'{name}': give the manifest where its files are, as s3://bucket/.../manifest.json.")
        return {"inventory": name}
    from seqferry.spec import list_files  # few commands have a list

    data = list_files.read_file(name) if name != "-" else _read_input()
    return list_files.arguments(key_lists.read(data, "standard input" if name == "-" else name, form))


def _read_input() -> bytes:
    if sys.__stdin__ is None:
        raise UsageError("Standard input is closed; give the list as a file, or through a pipe.")
    try:
        with sys.stdin.buffer as file:
            return file.read(key_lists.MAX_BYTES + 1)
    except OSError as why:
        raise UsageError(f"Cannot read the list 'standard input': {why.strerror or why}. Give a file.") from None
