"""``seqferry doctor``: checks this machine, the database and the storage."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.option_groups import InspectedPlaces, Output
from seqferry.cli.output import display, text
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.addresses import parse_uri
from seqferry.spec.option_groups import Endpoints

_MARKS: Final = {"ok": "ok", "warning": "look", "problem": "BAD"}


@frozen
class RefreshOption:
    """Option to ask the storage again instead of using results on record."""

    PANEL: ClassVar = "Options"

    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Test the capabilities of the storage again and ignore recorded results.",
        ),
    ] = False


def doctor(looked: InspectedPlaces, again: RefreshOption, endpoints: Endpoints, output: Output) -> int:
    """Check this machine, the database and the storage. Writes no object."""
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
        found.append((name, identity.resolve_place(S3Location(bucket, key, anonymous=anonymous, **own))))
    return found
