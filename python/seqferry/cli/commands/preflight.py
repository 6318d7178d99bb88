"""``seqferry preflight``: checks the objects of a transfer."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from seqferry.cli import exits, options, spec_arguments
from seqferry.cli.option_groups import InspectedPlaces, Output, SourcesAndTarget
from seqferry.cli.output import display, text
from seqferry.cli.session import session_of
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.spec import identity
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import Endpoints, NameOptions, SelectionOptions


@frozen
class InspectionScope:
    """Option to check all objects instead of the first 10,000."""

    PANEL: ClassVar = "Options"

    everything: Annotated[
        bool, typer.Option("--all", help="Check all objects. By default the first 10,000 are checked.")
    ] = False


@frozen
class Recursion:
    """Option to take a name that no object has for a prefix."""

    PANEL: ClassVar = "Options"

    recursive: Annotated[bool, options.option_of(SelectionOptions, "recursive")] = False


def preflight(
    looked: InspectedPlaces, every: InspectionScope, recursion: Recursion, endpoints: Endpoints, output: Output
) -> int:
    """Check permissions, archive states and names before a transfer.

    Failures are grouped by cause. No object is copied.
    """
    from seqferry.preflight import report

    if looked.source is None or looked.target is None:
        raise UsageError("Give SRC and DST, as for cp. See `seqferry preflight --help`.")
    places = SourcesAndTarget(sources=[looked.source], target=looked.target)
    given = spec_arguments.build(places, recursion, endpoints, NameOptions())
    spec = identity.resolve(build_spec(**given, allow_local=True))
    with session_of(output, records=False) as session:
        session.service.check(spec)
        findings = session.service.inspect(spec, at_most=None if every.everything else report.MAX_CHECKED)
    facts = report.event_data(findings)
    if output.as_json:
        display.emit("preflight", **facts)
    elif findings.failing or not output.quiet:
        for line in report.format_report(facts, spec.source.uri):
            print(text.printable(line))
    return exits.FAILED if findings.failing else exits.OK if findings.objects else exits.NOTHING
