"""``seqferry rm``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from seqferry.cli import exits, options, spec_arguments
from seqferry.cli.option_groups import Consent, ExpectedNumber, Output, Start, merge
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, session_of
from seqferry.cli.start_transfer import run_or_record
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import ResolvedSpec
from seqferry.spec import identity
from seqferry.spec.option_groups import NameOptions, OneEndpoint

if TYPE_CHECKING:
    from seqferry.planning.removals import RemovalCandidate
_COUNTED_AT_MOST: Final = 100_000


"""Objects that are counted for a question; of more it says so."""


@frozen
class Sources:
    """Arguments that name the objects to remove."""

    PANEL: ClassVar = "Arguments"

    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="URI...", help="s3://bucket/key, s3://bucket/*.tmp, or with -r s3://bucket/prefix/."),
    ] = None


@frozen
class RemovalSelection:
    """Options that select the objects to remove."""

    PANEL: ClassVar = "Selection"

    recursive: Annotated[
        bool,
        options.common(typer.Option("--recursive", "-r", "-R", help="Delete all objects below URI.")),
    ] = False
    versions: Annotated[
        bool,
        options.common(
            typer.Option(
                "--all-versions",
                help="Delete all versions and delete markers permanently. By default a versioned bucket keeps "
                "deleted objects.",
            )
        ),
    ] = False
    version_id: Annotated[
        str | None,
        options.common(
            typer.Option(
                "--version-id",
                metavar="ID",
                help="Delete this version of one object permanently.",
            )
        ),
    ] = None
    min_size: options.MinSize = None
    max_size: options.MaxSize = None
    newer_than: Annotated[
        str | None,
        typer.Option(
            "--newer-than",
            metavar="AGE",
            help="Only delete objects modified after this time: an age or a date.",
        ),
    ] = None
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Only delete objects modified before this time: an age or a date.",
        ),
    ] = None
    raw: Annotated[bool, typer.Option("--raw", help="Treat * and ? in URI literally.")] = False


def rm(
    doomed: Sources,
    which: RemovalSelection,
    names: NameOptions,
    consent: Consent,
    seen: ExpectedNumber,
    endpoint: OneEndpoint,
    start: Start,
    output: Output,
) -> int:
    """Delete objects. Each is recorded before it is deleted.

    A prefix needs --recursive. Deleting more than 1,000 objects needs a confirmation or --yes.
    """
    from seqferry.planning import removals  # it brings the engine, which --help need not wait for

    given = removal_arguments(doomed.sources or [], which, names) | merge(endpoint)
    spec = identity.resolve(removals.build_remove_spec(expected=seen.expect, **given))
    with session_of(output, check=spec, records=not start.dry_run) as session:
        if start.dry_run:
            return preview(session, spec)
        if not (consent.yes or spec.single or seen.expect is not None) and not confirm(session, spec):
            return exits.FAILED
        return run_or_record(session, spec, start, start.description)


def removal_arguments(sources: list[str], which: RemovalSelection, names: NameOptions) -> dict[str, Any]:
    """The arguments of ``build_remove_spec``, but for the endpoint."""
    listed = names.files_from
    if listed is not None and len(sources) != 1:
        raise UsageError("--files-from names objects below one prefix; give one.")
    named = merge(names)
    spec_arguments.set_keys(named)
    if any(named.pop("versions", ())) or any(named.pop("targets", ())):
        raise UsageError(f"{listed}: rm takes keys only; for a version: rm --version-id ID URI.")
    return merge(which) | named | {"sources": sources}


def preview(session: Session, spec: ResolvedSpec) -> int:
    """Show what would be removed; returns the exit code."""
    objects = total = 0
    for one in _each(session, spec):
        objects += 1
        total += one.size
        if session.as_json:
            display.emit("planned_removal", target_key=one.key, version_id=one.version_id, size=one.size)
        elif not session.quiet:
            version = "" if one.version_id is None else f" version {one.version_id}"
            print(f"(dry run) remove {text.printable(spec.source.at(one.key))}{version}")
    if session.as_json:
        display.emit("dry_run", removed=objects, bytes=total)
    elif not session.quiet:
        display.say(f"Dry run: {text.count(objects, 'object')}, {text.size(total)} to remove. Nothing was removed.")
    return exits.OK if objects else exits.NOTHING


def _each(session: Session, spec: ResolvedSpec) -> Iterator[RemovalCandidate]:
    return itertools.chain.from_iterable(session.service.preview_removal(spec))


def confirm(session: Session, spec: ResolvedSpec) -> bool:
    """True when the objects may be removed; a user at a terminal is asked if there are more than ``MAX_UNCONFIRMED``.

    Raises:
        UsageError: no user can be asked: there is no terminal, or --json is given.
    """
    from seqferry.planning.removals import MAX_UNCONFIRMED

    found = sum(1 for _ in itertools.islice(_each(session, spec), _COUNTED_AT_MOST + 1))
    if found <= MAX_UNCONFIRMED:
        return True
    many = f"more than {_COUNTED_AT_MOST:,}" if found > _COUNTED_AT_MOST else f"{found:,}"
    place = text.printable(spec.source.uri)
    if session.as_json or not sys.stdin.isatty():
        raise UsageError(f"{many} objects at {place} would be removed; check them with --dry-run, then add --yes.")
    display.say(f"{many} objects at {place} will be removed. Continue? [y/N] ")
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    display.say("Nothing was removed.")
    return False
