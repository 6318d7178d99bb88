"""``seqferry tar``: lists, indexes and verifies archives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.option_groups import AnswerFormat, Unsigned, merge
from seqferry.cli.output import display, text
from seqferry.model.frozen import frozen
from seqferry.settings.config import Settings
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from seqferry.engine.engine import FoundMember
    from seqferry.model.models import ResolvedSpec

tar = typer.Typer(help="List, verify and index tar archives.", rich_markup_mode=None)

_LETTERS: Final = {"file": "-", "hard_link": "h", "directory": "d", "symbolic_link": "l"}


@frozen
class Archive:
    """The archive to read."""

    PANEL: ClassVar = "Arguments"

    archive: Annotated[str, typer.Argument(metavar="ARCHIVE", help="s3://bucket/x.tar or a local file.")]


@frozen
class MemberListing:
    """Option for the way members are found."""

    PANEL: ClassVar = "Options"

    no_index: Annotated[
        bool,
        typer.Option("--no-index", help="Read the headers of the archive and ignore its index."),
    ] = False


@tar.callback()
def _group() -> None: ...


@tar.command()
def ls(archive: Archive, listing: MemberListing, endpoint: OneEndpoint, unsigned: Unsigned, form: AnswerFormat) -> int:
    """List the members of an archive: permissions, size, time (UTC), path.

    Members that unpack rejects are reported. The exit code is then 1.
    """
    from seqferry.engine.engine import Engine
    from seqferry.planning import unpacking

    spec = _spec(archive, endpoint, unsigned, index="never" if listing.no_index else "auto")
    shown = refused = 0
    for page in unpacking.scan(Engine.of(Settings.load(with_tables=False)), spec):
        for member in page:
            shown += 1
            refused += member.refusal is not None and not member.left_out
            if form.as_json:
                display.emit("member", **_facts(member))
            else:
                _show(member)
    if not shown:
        display.say(text.printable(f"{spec.source.uri} has no members."))
    return exits.FAILED if refused else exits.OK


@tar.command()
def verify(archive: Archive, endpoint: OneEndpoint, unsigned: Unsigned, form: AnswerFormat) -> int:
    """Read an archive and compare it with its index.

    Compares headers, offsets and, if the index has them, checksums.
    """
    from seqferry.engine.engine import Engine

    spec = _spec(archive, endpoint, unsigned)
    members = compared = size = problems = 0
    indexed = False
    for report in Engine.of(Settings.load(with_tables=False)).check_archive(spec.source):
        members, compared, size = max(members, report.members), max(compared, report.compared), max(size, report.bytes)
        indexed |= report.indexed
        for name, what in report.problems:
            problems += 1
            if form.as_json:
                display.emit("problem", member=name, problem=what)
            else:
                print(text.printable(f"{name}: {what}"))
    if form.as_json:
        display.emit("verified", members=members, compared=compared, bytes=size, indexed=indexed, problems=problems)
    else:
        index = f"{text.count(compared, 'member')} compared with the index" if indexed else "there is no index"
        found = "no problems" if not problems else text.count(problems, "problem")
        display.say(f"{text.count(members, 'member')}, {text.size(size)} read; {index}; {found}.")
    return exits.MISMATCH if problems else exits.OK


@tar.command()
def index(archive: Archive, endpoint: OneEndpoint, form: AnswerFormat) -> int:
    """Write the index ARCHIVE.sfidx, for reading single members.

    Only headers are read if members are large. A damaged or truncated archive gets no index.
    """
    from seqferry.engine.engine import Engine

    spec = _spec(archive, endpoint)
    members = Engine.of(Settings.load(with_tables=False)).index_archive(spec.source)
    written = spec.source.at(f"{spec.source.key}.sfidx")
    if form.as_json:
        display.emit("indexed", archive=spec.source.uri, index=written, members=members)
    else:
        display.say(text.printable(f"Wrote {written}: {text.count(members, 'member')}."))
    return exits.OK


def _spec(archive: Archive, *groups: OneEndpoint | Unsigned, **given: Any) -> ResolvedSpec:
    """A spec that unpacks the archive to nowhere: it names the source and how to read it."""
    from seqferry.planning import unpacking
    from seqferry.spec import identity

    return identity.resolve(
        unpacking.build_unpack_spec(archive.archive, "s3://nowhere/", allow_local=True, **merge(*groups), **given)
    )


def _facts(member: FoundMember) -> dict[str, Any]:
    code, reason = member.refusal or (None, None)
    return {
        "name": member.name,
        "path": member.path,
        "kind": member.kind,
        "size": member.size,
        "mode": f"{member.mode:04o}",
        "modified": text.optional_timestamp(member.modified),
        "link": member.link or None,
        "crc32c": None if member.crc32c is None else f"{member.crc32c:08x}",
        "refused": code,
        "reason": reason,
    }


def _show(member: FoundMember) -> None:
    bits = "".join(letter if member.mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    when = datetime.fromtimestamp(max(member.modified, 0), UTC).strftime("%Y-%m-%d %H:%M:%S")
    link = f" -> {member.link}" if member.link else ""
    line = f"{_LETTERS.get(member.kind, '?')}{bits} {member.size:>15} {when} {member.path or member.name}{link}"
    print(text.printable(line))
    if member.refusal is not None:
        display.say(text.printable(f"{member.name}: {member.refusal[1]}"))
