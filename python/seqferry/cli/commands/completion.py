"""``seqferry completion``: scripts for bash, zsh and fish, and the words that they ask for.

Commands, options and their values come from the tree of commands; transfer ids from the records; buckets and prefixes
from the storage that the line names, in one request that is not waited for longer than a few seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import typer

from seqferry.cli import command_tree, exits, foreign_commands
from seqferry.model.errors import SeqferryError, UsageError

if TYPE_CHECKING:
    from seqferry.model.locations import S3Location

Shell = Literal["bash", "zsh", "fish"]

_SECONDS: Final = 4
_SHOWN_AT_MOST: Final = 500
_PLACES: Final = frozenset({"SRC", "DST", "URI", "ARCHIVE", "PLACE", "PREFIX", "BUCKET", "UNPACKED", "TARGET"})
_OF_PLACE: Final = ("endpoint_url", "profile", "region")

_SCRIPTS: Final[dict[str, str]] = {
    "bash": """_seqferry() {
    local line="${COMP_LINE:0:COMP_POINT}" head
    mapfile -t COMPREPLY < <(seqferry completion bash --line "$line" 2>/dev/null)
    local word="${line##* }"
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        head="${word%"${word##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
    return 0
}
complete -o default -F _seqferry seqferry
""",
    "zsh": """#compdef seqferry
_seqferry() {
    local -a found folders
    found=("${(@f)$(seqferry completion zsh --line "${(j: :)words[1,CURSOR]}" 2>/dev/null)}")
    found=(${found:#})
    if (( ! ${#found} )); then _files; return; fi
    folders=(${(M)found:#*/})
    compadd -S '' -a folders
    found=(${found:#*/})
    compadd -a found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _seqferry "$@"; else compdef _seqferry seqferry; fi
""",
    "fish": """function __seqferry
    seqferry completion fish --line (commandline -cp | string collect) 2>/dev/null
end
complete -c seqferry -a '(__seqferry)'
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(help="Name of the shell.")],
    line: Annotated[str | None, typer.Option("--line", hidden=True, help="Complete this line.")] = None,
) -> int:
    """Print the completion script of a shell.

    It completes commands, options, buckets, prefixes and transfer ids.
    """
    if line is None:
        print(_SCRIPTS[shell], end="")
        return exits.OK
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_SECONDS)
    for found in words(line):
        print(_quote(found) if shell == "bash" else found)
    return exits.OK


def _give_up(_number: int, _frame: object) -> None:
    sys.stdout.flush()
    sys.exit(exits.OK)


def _quote(word: str) -> str:
    return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", word)


def words(line: str) -> list[str]:
    """Completions of the last word of a command line; none for files, and where they are not known."""
    given, last = _split(line)
    if not given:
        return []
    typed = given[1:]
    command, rest = _command(typed)
    if command is None:
        return []
    if hasattr(command, "commands") and not last.startswith("-"):
        return sorted(name for name, one in command.commands.items() if name.startswith(last) and not one.hidden)
    options = _options(command)
    if last.startswith("-"):
        return sorted(name for name in options if name.startswith(last))
    awaited = options.get(rest[-1]) if rest and rest[-1].startswith("-") else None
    if awaited is not None and not awaited.is_flag:
        return [choice for choice in _choices(awaited) if choice.startswith(last)]
    return _of_arguments(command, rest, last)


def _split(line: str) -> tuple[list[str], str]:
    """Whole words of a line, and the one that is typed, without quotes and escapes."""
    found, word, quote, escaped, begun = list[str](), "", "", False, False
    for character in line:
        if escaped:
            word, escaped = word + character, False
        elif character == "\\" and quote != "'":
            escaped, begun = True, True
        elif quote:
            quote, word = ("", word) if character == quote else (quote, word + character)
        elif character in "'\"":
            quote, begun = character, True
        elif character.isspace():
            if word or begun:
                found.append(word)
            word, begun = "", False
        else:
            word += character
    return found, word


def _command(typed: list[str]) -> tuple[Any, list[str]]:
    """The command that the words lead to, and the words that follow it."""
    command, rest = command_tree.build_tree(), list(typed)
    with contextlib.suppress(UsageError):
        rest = foreign_commands.translate(rest) if rest else rest
    while rest and hasattr(command, "commands"):
        if rest[0].startswith("-"):
            rest = rest[1:]
            continue
        if rest[0] not in command.commands:
            return None, rest
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def _options(command: Any) -> dict[str, Any]:
    context = command_tree.help_context(command, ())
    return {
        name: parameter
        for parameter in command.get_params(context)
        if parameter.param_type_name == "option" and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }


def _choices(parameter: Any) -> list[str]:
    annotation: Any = parameter.type_descriptor.annotation
    hints: list[Any] = [annotation, *get_args(annotation)]
    return [str(choice) for hint in hints if get_origin(hint) is Literal for choice in get_args(hint)]


def _of_arguments(command: Any, rest: list[str], last: str) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    metavars = {re.sub(r"[^A-Z]", "", one.metavar or str(one.name).upper()) for one in arguments}
    if choices := [choice for one in arguments for choice in _choices(one) if choice.startswith(last)]:
        return choices
    try:
        if "ID" in metavars or "IDS" in metavars:
            return list(_transfers(rest, last))
        if metavars & _PLACES or "s3" in last:
            return list(_places(rest, last))
    except SeqferryError:
        return []
    return []


def _value(rest: list[str], *names: str) -> str | None:
    """Value of the first of these options that is given; None when none is."""
    for name in names:
        for at, word in enumerate(rest):
            if word == name and at + 1 < len(rest):
                return rest[at + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def _statuses(rest: list[str]) -> Iterable[Any]:
    from seqferry.service.service import Service
    from seqferry.settings.config import Settings

    settings = Settings.load(state_dir=_value(rest, "--state-dir"), with_tables=False)
    if settings.uses_sqlite and not os.access(settings.sqlite_path, os.F_OK):
        return []
    with Service.open(settings, reads=True) as service:
        return service.transfers(200)


def _transfers(rest: list[str], last: str) -> Iterator[str]:
    return (status.id for status in _statuses(rest) if status.id.startswith(last))


def _places(rest: list[str], last: str) -> Iterator[str]:
    """Addresses that begin with what was typed: buckets, then one level of keys."""
    if not last.startswith("s3://"):
        if last and "s3://".startswith(last):
            yield "s3://"
        return
    bucket, slash, key = last.removeprefix("s3://").partition("/")
    if not slash:
        yield from _buckets(rest, bucket)
        return
    from seqferry.engine.engine import Engine

    objects, prefixes = next(Engine(max_requests=8).level(_place_of(rest, bucket, key)), ([], []))  # type: ignore[arg-type]
    found = sorted({*prefixes, *(info.key for info in objects if info.refusal is None)})
    yield from (f"s3://{bucket}/{name}" for name in found[:_SHOWN_AT_MOST] if "\n" not in name)


def _place_of(rest: list[str], bucket: str, key: str = "") -> S3Location:
    """A place at the endpoint and with the credentials that the line names, of either side."""
    from seqferry.model.locations import S3Location
    from seqferry.spec import identity

    sides = ("", "source-", "target-")
    given: dict[str, Any] = {
        name: _value(rest, *(f"--{side}{name.replace('_', '-')}" for side in sides)) for name in _OF_PLACE
    }
    place = identity.resolve_place(S3Location(bucket, key, anonymous="--no-sign-request" in rest, **given))
    assert isinstance(place, S3Location)
    return place


def _buckets(rest: list[str], start: str) -> Iterator[str]:
    """Buckets that the credentials may list; without that right, those of earlier transfers."""
    from seqferry.engine import buckets
    from seqferry.engine.engine import Engine

    try:
        found = {name for name, _ in buckets.list_buckets(Engine(max_requests=8), _place_of(rest, ""))}
    except SeqferryError:
        found = _buckets_of_transfers(rest)
    yield from (f"s3://{name}/" for name in sorted(found) if name.startswith(start))


def _buckets_of_transfers(rest: list[str]) -> set[str]:
    return {
        place.bucket
        for status in _statuses(rest)
        for place in (status.spec.source, status.spec.target)
        if hasattr(place, "bucket")
    }
