"""``seqferry doctor`` and ``seqferry preflight``: looks at this machine, the storage, and the objects of a transfer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Final

import typer

from seqferry.cli import display, exits, options, selecting, text
from seqferry.cli.groups import Output, Places
from seqferry.cli.session import session_of
from seqferry.model.errors import UsageError
from seqferry.model.models import LocalFolder, Location, S3Location
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.build import build_spec, parse_uri
from seqferry.spec.option_groups import Endpoints, Names, Selection

_MARKS: Final = {"ok": "ok", "warning": "look", "problem": "BAD"}


@dataclass(frozen=True, slots=True)
class InspectedPlaces:
    """Source and target of the inspection."""

    PANEL: ClassVar = "Arguments"

    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="s3://bucket/prefix/ or a local folder that is read.")
    ] = None
    target: Annotated[
        str | None, typer.Argument(metavar="[DST]", help="s3://bucket/prefix/ or a local folder that is written.")
    ] = None


@dataclass(frozen=True, slots=True)
class RefreshOption:
    """Option to ask the storage again instead of using results on record."""

    PANEL: ClassVar = "Options"

    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            envvar="SEQFERRY_REFRESH",
            help="Ask the storage again what it can do, also where an earlier look is on record.",
        ),
    ] = False


def doctor(looked: InspectedPlaces, again: RefreshOption, endpoints: Endpoints, output: Output) -> int:
    """Look at this machine, the database and the places, and say what to do about each trouble. Writes no object."""
    from seqferry.doctor.doctor import examine

    settings = Settings.load(state_dir=output.state_dir)
    worst = "ok"
    for finding in examine(settings, _places(looked, endpoints), refresh=again.refresh):
        worst = max(worst, finding.level, key=("ok", "warning", "problem").index)
        if output.as_json:
            display.emit("finding", **asdict(finding))
        elif not (output.quiet and finding.level == "ok"):
            print(f"{_MARKS[finding.level]:<5} {finding.topic:<20} {text.printable(finding.text)}")
            if finding.advice is not None:
                print(f"{'':<26} {text.printable(finding.advice)}")
    return exits.FAILED if worst == "problem" else exits.OK


def _places(looked: InspectedPlaces, endpoints: Endpoints) -> list[tuple[str, Location]]:
    found: list[tuple[str, Location]] = []
    for name, given in (("source", looked.source), ("target", looked.target)):
        if given is None:
            continue
        if not given.startswith("s3:"):
            found.append((name, LocalFolder(given)))
            continue
        bucket, key = parse_uri(given)
        own = {
            each: getattr(endpoints, f"{name}_{each}") or getattr(endpoints, each)
            for each in ("endpoint_url", "profile", "region")
        }
        anonymous = endpoints.no_sign_request and name == "source"
        found.append((name, identity.resolved_place(S3Location(bucket, key, anonymous=anonymous, **own))))
    return found


@dataclass(frozen=True, slots=True)
class InspectionScope:
    """Option to look at all objects instead of the first 10,000."""

    PANEL: ClassVar = "Options"

    everything: Annotated[bool, typer.Option("--all", help="Look at all objects, not only at the first 10,000.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class Recursion:
    """Option to take a name that no object has for a prefix."""

    PANEL: ClassVar = "Options"

    recursive: Annotated[bool, options.shared(Selection, "recursive")] = False


def preflight(
    looked: InspectedPlaces, every: InspectionScope, recursion: Recursion, endpoints: Endpoints, output: Output
) -> int:
    """Look at each object before a byte moves: permission, archives, names. One report by cause, for who owns them."""
    from seqferry.preflight import report

    if looked.source is None or looked.target is None:
        raise UsageError("Give SRC and DST, as for cp. See `seqferry preflight --help`.")
    places = Places(sources=[looked.source], target=looked.target)
    given = selecting.spec_arguments(places, recursion, endpoints, Names())
    spec = identity.resolved(build_spec(**given, allow_local=True))
    with session_of(output, records=False) as session:
        session.service.check(spec)
        findings = session.service.inspect(spec, at_most=None if every.everything else report.LOOKED_AT)
    facts = report.facts(findings)
    if output.as_json:
        display.emit("preflight", **facts)
    elif findings.troubled or not output.quiet:
        for line in report.lines(facts, spec.source.uri):
            print(text.printable(line))
    return exits.FAILED if findings.troubled else exits.OK if findings.objects else exits.NOTHING
