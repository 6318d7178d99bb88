"""``seqferry check``."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from seqferry.cli import options, pipes, spec_arguments
from seqferry.cli.option_groups import Described, Output, SourcesAndTarget, merge
from seqferry.cli.output import text
from seqferry.cli.session import Session, actor, session_of
from seqferry.cli.start_transfer import start_detached
from seqferry.model.frozen import frozen
from seqferry.model.models import CheckedSpec
from seqferry.model.option_groups import Filters, Verify, narrow_group
from seqferry.spec import identity
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    RecordedSpeed,
    SelectionOptions,
    SpeedOptions,
    Versions,
)


@frozen
class Comparison:
    """Options that set how both sides are compared."""

    PANEL: ClassVar = "Comparison"

    verify: Annotated[
        Verify,
        options.common(
            typer.Option(
                "--verify",
                envvar="SEQFERRY_VERIFY",
                help="How to compare. checksum: compare checksums, and read both sides if there is none. auto: "
                "equal sizes are enough if there is none. content: read both sides.",
            )
        ),
    ] = "checksum"
    one_way: Annotated[
        bool,
        options.common(typer.Option("--one-way", help="Ignore objects that exist only at DST.")),
    ] = False


@frozen
class Marks:
    """Option for the objects that are printed."""

    PANEL: ClassVar = "Comparison"

    combined: Annotated[
        bool,
        options.common(typer.Option("--combined", help="Also print identical objects, marked =.")),
    ] = False


@frozen
class DetachOption:
    """Option to leave the check to a worker."""

    PANEL: ClassVar = "Transfer"

    detach: Annotated[
        bool,
        options.common(
            typer.Option("--detach", envvar="SEQFERRY_DETACH", help="Record the check, print its id and return.")
        ),
    ] = False


def check(
    places: SourcesAndTarget,
    comparison: Comparison,
    marks: Marks,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    versions: Versions,
    speed: SpeedOptions,
    access: AccessOptions,
    endpoints: Endpoints,
    detach: DetachOption,
    described: Described,
    output: Output,
) -> int:
    """Compare SRC with DST and print differences. Exit code 3 if there are any.

    Marks: * differs, + only at SRC, - only at DST, ! could not be compared, = identical (with --combined).
    """
    pipes.reject_streams(places, "check")
    spec = identity.resolve(
        comparison_spec(places, comparison, selection, filters, names, versions, speed, access, endpoints)
    )
    with session_of(output, speed, check=spec) as session:
        if detach.detach:
            return start_detached(
                session, session.service.submit_or_resume(spec, actor=actor(), description=described.description)
            )
        transfer_id, code = session.submit_and_follow(spec, description=described.description)
        if not (session.as_json or session.quiet):
            _report(session, transfer_id, combined=marks.combined)
        return code


def comparison_spec(
    places: SourcesAndTarget,
    comparison: Comparison,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    versions: Versions,
    speed: RecordedSpeed,
    access: AccessOptions,
    endpoints: Endpoints,
) -> CheckedSpec:
    """Spec of ``check`` by the options that are recorded with it.

    Raises:
        UsageError: it is not valid.
    """
    from seqferry.spec.check import build_check_spec

    recorded = narrow_group(RecordedSpeed, speed)
    given = spec_arguments.build(places, selection, filters, names, versions, recorded, access, endpoints)
    return build_check_spec(**given, **merge(comparison), allow_local=True)


def _report(session: Session, transfer_id: str, *, combined: bool) -> None:
    from seqferry.spec.check import mark

    strip = session.service.status(transfer_id).spec.strip
    for record in session.objects(transfer_id):
        found = mark(record.state, record.error_code)
        if found != "=" or combined:
            print(f"{found} {text.printable(record.source_key.removeprefix(strip) or record.source_key)}")
