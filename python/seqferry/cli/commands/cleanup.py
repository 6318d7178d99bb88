"""``seqferry cleanup``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.option_groups import Consent, ExpectedNumber, Output, Start, merge
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, session_of
from seqferry.cli.start_transfer import run_or_record
from seqferry.model import prices
from seqferry.model.frozen import frozen
from seqferry.model.models import CheckedSpec, ResolvedSpec
from seqferry.model.option_groups import narrow_group
from seqferry.spec import identity
from seqferry.spec.option_groups import OneEndpoint, RecordedSpeed, SpeedOptions

_ASKED_FROM: Final = 1000


@frozen
class CleanupPrefix:
    """Argument that names the bucket or prefix whose open uploads are listed."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket or s3://bucket/prefix/.")]


@frozen
class Age:
    """Option that selects open uploads by their age."""

    PANEL: ClassVar = "Selection"

    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Abort uploads started before this time: an age, as 7d or 12h, or a date.",
        ),
    ] = "7d"


def cleanup(
    place: CleanupPrefix,
    age: Age,
    consent: Consent,
    seen: ExpectedNumber,
    speed: SpeedOptions,
    endpoint: OneEndpoint,
    start: Start,
    output: Output,
) -> int:
    """Abort incomplete multipart uploads, whose parts are billed.

    Uploads of unfinished transfers in this state folder are kept. Uploads of other programs are aborted too:
    choose an age that none of them reaches.
    """
    spec = identity.resolve(_build_spec(place, age, consent, speed, endpoint, expected=seen.expect))
    with session_of(output, speed, check=spec, records=not start.dry_run) as session:
        if start.dry_run:
            return _preview(session, spec)
        return run_or_record(session, spec, start, start.description)


def cleanup_spec(
    place: CleanupPrefix, age: Age, consent: Consent, speed: RecordedSpeed, endpoint: OneEndpoint
) -> CheckedSpec:
    """Spec of ``cleanup`` by the options that are recorded with it.

    Raises:
        UsageError: it is not valid.
    """
    return _build_spec(place, age, consent, speed, endpoint)


def _build_spec(
    place: CleanupPrefix,
    age: Age,
    consent: Consent,
    speed: RecordedSpeed,
    endpoint: OneEndpoint,
    *,
    expected: int | None = None,
) -> CheckedSpec:
    from seqferry.planning.cleanup import build_cleanup_spec  # it brings the engine, which --help need not wait for

    most = None if consent.yes or expected is not None else _ASKED_FROM
    given = merge(narrow_group(RecordedSpeed, speed), endpoint)
    return build_cleanup_spec(place.place, older_than=age.older_than, most=most, expected=expected, **given)


def _preview(session: Session, spec: ResolvedSpec) -> int:
    uploads = total = 0
    for page in session.service.preview_cleanup(spec):
        for one in page:
            uploads += one.kept is None
            total += one.bytes if one.kept is None else 0
            if session.as_json:
                display.emit(
                    "planned_abort",
                    key=one.key,
                    upload_id=one.upload_id,
                    initiated=text.timestamp(one.initiated),
                    bytes=one.bytes,
                    kept=one.kept,
                )
            elif not session.quiet:
                verb = "abort" if one.kept is None else "keep"
                why = "" if one.kept is None else f": {one.kept}"
                begun = text.timestamp(one.initiated)
                uri = text.printable(spec.source.at(one.key))
                print(f"(dry run) {verb} the upload of {begun} to {uri}, {text.size(one.bytes)}{why}")
    # Parts of open uploads are billed as objects are.
    monthly = prices.cost("s3-month", total)
    if session.as_json:
        display.emit("dry_run", uploads=uploads, bytes=total, usd_per_month=round(monthly, 4))
    elif not session.quiet:
        display.say(
            f"Dry run: {text.count(uploads, 'upload')} with {text.size(total)}, about ${monthly:,.2f} a month in S3 "
            "Standard. Nothing was aborted."
        )
    return exits.OK
