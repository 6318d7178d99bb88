"""``seqferry run``: a list of commands as one durable transfer."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any, ClassVar, Final, cast

import typer
from typer.exceptions import TyperException

from seqferry.cli import foreign_commands, pipes, spec_arguments
from seqferry.cli.commands import rm
from seqferry.cli.commands.rm import RemovalSelection, Sources
from seqferry.cli.option_groups import Consent, Output, SourcesAndTarget, Start
from seqferry.cli.output import preview
from seqferry.cli.session import session_of
from seqferry.cli.start_transfer import run_or_record
from seqferry.model import encoding
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Attributes, Filters, Protection
from seqferry.spec.build import as_move, build_spec
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
    SelectionOptions,
    SpeedOptions,
    StorageOptions,
)

_MAX_BYTES: Final = 64 * 1024 * 1024
_PROGRAMS: Final = (["aws", "s3"], ["s3"], ["s5cmd"], ["seqferry"])
"""Names of programs that may precede the command of a line; they are dropped."""

_SAY_NOTHING: Final = frozenset({"--quiet", "-q", "--no-progress", "--yes", "-y"})
"""Options of a line that are those of the whole list here."""

_VERBS: Final = ("cp", "mv", "rm")


@frozen
class CommandList:
    """The commands."""

    PANEL: ClassVar = "Arguments"

    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="File with one command per line: cp, mv or rm. -: standard input.")
    ] = "-"


def run(
    commands: CommandList, consent: Consent, speed: SpeedOptions, endpoints: Endpoints, start: Start, output: Output
) -> int:
    """Run a list of cp, mv and rm commands as one transfer.

    Lines run concurrently and in no order. A line that reads or deletes what another line writes is rejected.
    Empty lines and lines that start with # are ignored. Give endpoint, speed and output options to run, not on
    the lines.
    """
    from seqferry.spec import run as run_spec

    name = "standard input" if commands.file == "-" else commands.file
    found = [
        run_spec.ListedCommand(number, spec)
        for number, spec in _specs(_read(commands.file, name), name, endpoints, yes=consent.yes)
    ]
    spec = run_spec.build_run_spec(found, name)
    with session_of(output, speed, records=not start.dry_run) as session:
        if start.dry_run:
            codes = [_preview(session, part) for part in run_spec.read_parts(spec)]
            return max(codes)
        return run_or_record(session, spec, start, start.description)


def _preview(session: Any, part: Any) -> int:
    if part.spec.kind.removes:
        return rm.preview(session, part.spec)
    return preview.show_preview(session, part.spec)


def _read(file: str, name: str) -> str:
    try:
        with sys.stdin.buffer if file == "-" else open(file, "rb") as opened:  # noqa: PTH123
            data = opened.read(_MAX_BYTES + 1)
    except OSError as why:
        raise UsageError(
            f"Cannot read the list '{name}': {why.strerror or why}. Give a file, or - for standard input."
        ) from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{name} has more than {_MAX_BYTES // 1024**2} MiB; split it.")
    try:
        return encoding.decode(data)
    except UnicodeDecodeError as why:
        line = data.count(b"\n", 0, why.start) + 1
        column = why.start - (data.rfind(b"\n", 0, why.start) + 1) + 1
        raise UsageError(f"{name}, line {line}, column {column}: not valid UTF-8.") from None


def _specs(text: str, name: str, endpoints: Endpoints, *, yes: bool) -> list[tuple[int, TransferSpec]]:
    parser = _Parser(endpoints, yes=yes)
    found: list[tuple[int, TransferSpec]] = []
    # Not splitlines(): a key may hold what Unicode takes for the end of a line.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found.append((number, parser.spec(line)))
        except ValueError as why:  # of shlex
            raise UsageError(f"{name}, line {number}, column {len(line)}: {why}.".replace("..", ".")) from None
        except (UsageError, TyperException) as why:
            said = why.message if isinstance(why, UsageError) else why.format_message()
            raise UsageError(f"{name}, line {number}: {said}") from None
    return found


class _Parser:
    """Makes specs of lines, with the options of ``cp``, ``mv`` and ``rm`` that say something of objects."""

    def __init__(self, endpoints: Endpoints, *, yes: bool) -> None:
        from seqferry.cli.app import build_command

        self._endpoints = endpoints
        self._yes = yes
        self._commands = {verb: build_command(verb, getattr(self, verb)) for verb in _VERBS}

    def spec(self, line: str) -> TransferSpec:
        words = shlex.split(line, comments=True)
        for program in _PROGRAMS:
            if words[: len(program)] == program:
                words = words[len(program) :]
                break
        words = foreign_commands.translate(words)
        if not words or words[0] not in _VERBS:
            verb = words[0] if words else ""
            raise UsageError(f"'{verb}' is not allowed in a list; write cp, mv or rm.")
        words = [word for word in words if word not in _SAY_NOTHING]
        made = self._commands[words[0]].main(words[1:], prog_name=words[0], standalone_mode=False)
        return cast("TransferSpec", made)

    def cp(
        self,
        places: SourcesAndTarget,
        selection: SelectionOptions,
        filters: Filters,
        names: NameOptions,
        parts: PartOptions,
        storage: StorageOptions,
        access: AccessOptions,
        protection: Protection,
        attributes: Attributes,
    ) -> TransferSpec:
        pipes.reject_streams(places, "run")
        given = spec_arguments.build(
            places, selection, filters, names, parts, storage, access, protection, attributes, self._endpoints
        )
        return build_spec(**given, allow_local=True)

    def mv(
        self,
        places: SourcesAndTarget,
        selection: SelectionOptions,
        filters: Filters,
        names: NameOptions,
        parts: PartOptions,
        storage: StorageOptions,
        access: AccessOptions,
        protection: Protection,
        attributes: Attributes,
    ) -> TransferSpec:
        return as_move(self.cp(places, selection, filters, names, parts, storage, access, protection, attributes))

    def rm(self, doomed: Sources, which: RemovalSelection, names: NameOptions) -> TransferSpec:
        from seqferry.planning import removals

        endpoint = self._endpoints
        given = rm.removal_arguments(doomed.sources or [], which, names)
        given |= {name: getattr(endpoint, name) for name in ("endpoint_url", "profile", "region")}
        return removals.build_remove_spec(**given, most=None if self._yes else removals.MAX_UNCONFIRMED)
