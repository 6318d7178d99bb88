"""``seqferry doctor``: checks this machine, the database and the storage."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from seqferry.cli.option_groups import InspectedPlaces, Output
from seqferry.cli.output.findings import show_findings
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.settings.config import Settings
from seqferry.spec import identity
from seqferry.spec.addresses import parse_uri
from seqferry.spec.option_groups import Endpoints


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
    findings = examine(settings, _places(looked, endpoints), refresh=again.refresh)
    return show_findings(findings, as_json=output.as_json, quiet=output.quiet)


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
