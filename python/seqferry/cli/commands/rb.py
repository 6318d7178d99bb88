"""``seqferry rb``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import typer

from seqferry.cli import exits, option_groups
from seqferry.cli.commands.rm import confirm
from seqferry.cli.option_groups import Bucket, Consent, Described, ExpectedNumber, Output, merge
from seqferry.cli.output import display, text
from seqferry.cli.session import session_of
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.spec import identity
from seqferry.spec.option_groups import OneEndpoint


@frozen
class Force:
    """Option to empty the bucket first."""

    PANEL: ClassVar = "Options"

    force: Annotated[
        bool,
        typer.Option("--force", help="Delete all objects and versions in the bucket first."),
    ] = False


def rb(
    bucket: Bucket,
    force: Force,
    consent: Consent,
    seen: ExpectedNumber,
    endpoint: OneEndpoint,
    described: Described,
    output: Output,
) -> int:
    """Remove an empty bucket, or with --force a bucket and its objects."""
    from seqferry.planning import removals

    place = option_groups.bucket_of(bucket.bucket, endpoint)
    if seen.expect is not None and not force.force:
        raise UsageError("--expect counts the versions that --force removes, and --force is not given.")
    if force.force:
        given: dict[str, Any] = {**merge(endpoint), "recursive": True, "versions": True, "expected": seen.expect}
        spec = identity.resolve(removals.build_remove_spec([bucket.bucket], **given))
        with session_of(output, check=spec) as session:
            if not (consent.yes or seen.expect is not None) and not confirm(session, spec):
                return exits.FAILED
            code = session.run(spec, description=described.description)
            if code not in (exits.OK, exits.NOTHING):
                return code
            session.service.abort_uploads(spec.source)
    with session_of(output, records=False) as session:
        session.service.remove_bucket(place)
        if session.as_json:
            display.emit("bucket_removed", bucket=place.bucket)
        elif not session.quiet:
            print(f"removed s3://{text.printable(place.bucket)}")
    return exits.OK
