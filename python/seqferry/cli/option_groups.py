"""Groups of options of the command line alone.

A group is a frozen dataclass, shown as a panel of ``--help``. Groups that HTTP shares are in ``option_groups``; those
that name transfers on record are in ``transfer_options``. ``grouped_options`` makes commands of groups.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar

import typer

from seqferry.cli import options
from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.labels import Description
from seqferry.model.locations import S3Location
from seqferry.model.models import MAX_PRIORITY
from seqferry.spec.addresses import parse_uri
from seqferry.spec.option_groups import OneEndpoint
from seqferry.spec.validation import check_place


@frozen(kw_only=True)
class SourcesAndTarget:
    """Sources and target of a transfer."""

    PANEL: ClassVar = "Arguments"

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SRC...",
            help="s3://bucket/prefix/ (everything below it), s3://bucket/key, a local folder or file, or - for"
            " standard input. * and ? are wildcards. Several sources must be in one bucket or all local.",
        ),
    ] = None
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="s3://bucket/prefix/ or a local folder. For one object also s3://bucket/key, a local file, or"
            " - for standard output.",
        ),
    ]

    @property
    def source(self) -> str:
        """The first source.

        Raises:
            UsageError: no source was given: the only place is the target.
        """
        if not self.sources:
            raise UsageError("Missing argument 'DST'. See `seqferry cp --help`.")
        return self.sources[0]


@frozen
class Background:
    """Option to leave the work of a command to a running worker."""

    PANEL: ClassVar = "Transfer"

    detach: Annotated[
        bool,
        options.common(
            typer.Option(
                "--detach",
                envvar="SEQFERRY_DETACH",
                help="Record the request and return. A running worker does the work.",
            )
        ),
    ] = False
    wait: options.Wait = False


def bucket_of(written: str, endpoint: OneEndpoint) -> S3Location:
    """The bucket that ``s3://bucket``, or its name alone, means.

    Raises:
        UsageError: the text names a key as well, or no bucket.
    """
    bucket, key = parse_uri(written if "://" in written else f"s3://{written}")
    if key:
        raise UsageError(f"'{written}' names something in a bucket; write the bucket alone: s3://{bucket}")
    place = S3Location(bucket, endpoint_url=endpoint.endpoint_url, region=endpoint.region, profile=endpoint.profile)
    check_place(place)
    return place


@frozen
class Described:
    """Options for the name and the labels of a transfer."""

    PANEL: ClassVar = "Transfer"

    transfer_name: Annotated[
        str | None,
        typer.Option(
            "--name",
            envvar="SEQFERRY_TRANSFER_NAME",
            metavar="TEXT",
            help="Name of the transfer, as 'Run 42'. Commands accept it in place of the id.",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", envvar="SEQFERRY_LABEL", metavar="KEY=VALUE", help="Label of the transfer. Can be repeated."
        ),
    ] = None

    @property
    def description(self) -> Description:
        """Name and labels.

        Raises:
            UsageError: one of them is not valid.
        """
        return labels.parse(self.transfer_name, self.label or ())


@frozen
class Start(Described):
    """Options for the start of a transfer: dry run, preflight, detaching, a second transfer, priority, its name."""

    PANEL: ClassVar = "Transfer"

    dry_run: Annotated[
        bool,
        options.common(
            typer.Option(
                "--dry-run",
                "--dryrun",
                envvar="SEQFERRY_DRY_RUN",
                help="Show what would happen to each object. Nothing is copied or recorded.",
            )
        ),
    ] = False
    preflight: Annotated[
        bool | None,
        typer.Option(
            "--preflight/--no-preflight",
            envvar="SEQFERRY_PREFLIGHT",
            help="Check all objects first and start nothing if one would fail; or check none. By default a "
            "sample is checked.",
        ),
    ] = None
    detach: Annotated[
        bool,
        options.common(
            typer.Option(
                "--detach",
                envvar="SEQFERRY_DETACH",
                help="Record the transfer, print its id and return. A running worker does the work.",
            )
        ),
    ] = False
    wait: options.Wait = False
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            envvar="SEQFERRY_NEW",
            help="Start a duplicate of an unfinished transfer. It waits for that one. By default the same "
            "command continues the unfinished transfer.",
        ),
    ] = False
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            envvar="SEQFERRY_PRIORITY",
            metavar="N",
            min=-MAX_PRIORITY,
            max=MAX_PRIORITY,
            help="Priority from -10 to 10. Higher runs first.",
        ),
    ] = 0


@frozen
class Pricing:
    """Option for the prices of a dry run, and of the end of a transfer."""

    PANEL: ClassVar = "Output"

    price: options.Price = None

    def check(self) -> str | None:
        """The region.

        Raises:
            UsageError: there are no prices of it.
        """
        if self.price is not None:
            from seqferry.model import prices

            prices.read_shipped(self.price)
        return self.price


@frozen
class End:
    """Option to end a transfer without aborting its open uploads."""

    PANEL: ClassVar = "Options"

    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            help="Cancel immediately without aborting multipart uploads, if the credentials are gone.",
        ),
    ] = False


@frozen
class Output:
    """Options for the printed output, and for the folder where transfers are recorded."""

    PANEL: ClassVar = "Output"

    as_json: options.Json = False
    quiet: options.Quiet = False
    no_progress: options.NoProgress = False
    state_dir: options.StateDir = None


def merge(*groups: Any) -> dict[str, Any]:
    """The fields of all groups by their names."""
    found: dict[str, Any] = {}
    for group in groups:
        found |= {one.name: getattr(group, one.name) for one in fields(group)}
    return found


@frozen
class Bucket:
    """A bucket."""

    PANEL: ClassVar = "Arguments"

    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="s3://bucket.")]


@frozen
class Object:
    """One object."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket/key.")]


@frozen
class Version:
    """Option that selects one version of the object."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        typer.Option("--version-id", metavar="ID", help="Version of the object."),
    ] = None


@frozen
class AnswerFormat:
    """Option for the format of the answer."""

    PANEL: ClassVar = "Output"

    as_json: Annotated[
        bool, typer.Option("--json", envvar="SEQFERRY_JSON", help="Print NDJSON events to standard output.")
    ] = False


@frozen
class InspectedPlaces:
    """Source and target of the inspection."""

    PANEL: ClassVar = "Arguments"

    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="Source: s3://bucket/prefix/ or a local folder.")
    ] = None
    target: Annotated[
        str | None, typer.Argument(metavar="[DST]", help="Target: s3://bucket/prefix/ or a local folder.")
    ] = None


@frozen
class ExpectedNumber:
    """Option for the expected number of objects or uploads. It has no environment variable."""

    PANEL: ClassVar = "Selection"

    expect: Annotated[
        int | None,
        options.common(
            typer.Option(
                "--expect",
                metavar="N",
                min=0,
                help="Proceed only if exactly N match, as counted by --dry-run. No prompt.",
            )
        ),
    ] = None


@frozen
class Consent:
    """Option to remove objects, or abort uploads, in numbers over 1,000 without a question."""

    PANEL: ClassVar = "Selection"

    yes: Annotated[
        bool,
        options.common(typer.Option("--yes", "-y", help="Do not prompt for more than 1,000 objects or uploads.")),
    ] = False


@frozen
class Unsigned:
    """Option to read a public bucket."""

    PANEL: ClassVar = "Storage"

    no_sign_request: options.NoSignRequest = False
