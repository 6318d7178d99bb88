"""Groups of options of the command line alone, and commands made of groups.

A group is a frozen dataclass, shown as a panel of ``--help``. Groups that HTTP shares are in ``option_groups``. A
command is a function whose parameters are all groups. Its options are those of its groups; what was given comes back
as values of the groups, so that no command lists an option twice.

What must stay true: names of fields are unique among the groups of a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer

from seqferry.cli import options
from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.labels import Description
from seqferry.model.models import MOST_PRIORITY, S3Location
from seqferry.model.option_fields import OptionField, option_fields
from seqferry.model.option_groups import MOST_STARTS
from seqferry.settings.config import MOST_REQUESTS
from seqferry.spec.build import check_place, parse_uri
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from typer._click.core import Parameter

    from seqferry.db.paging import TransferFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Sources and target of a transfer."""

    PANEL: ClassVar = "Arguments"

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SRC...",
            help="s3://bucket/prefix/ (all below), s3://bucket/key, a local folder or file, - for standard input. "
            "* and ? select objects. Several sources: all in one bucket, or all on this machine.",
        ),
    ] = None
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="s3://bucket/prefix/ or a local folder; for one object also s3://bucket/key, a local file, or - for "
            "standard output.",
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


@dataclass(frozen=True, slots=True)
class RecordedTransfer:
    """Argument that names a transfer on record."""

    PANEL: ClassVar = "Arguments"

    transfer: options.TransferId


@dataclass(frozen=True, slots=True)
class TransferSelection:
    """Options that name transfers on record, for commands that change them.

    They have no environment variables, so that no command changes transfers by accident.
    """

    PANEL: ClassVar = "Arguments"

    transfers: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of transfers, or the starts of them. Without: see the options."),
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="All transfers that the command is for.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dryrun", help="Only show which they are, and change nothing.")
    ] = False
    expect: Annotated[
        int | None,
        typer.Option(
            "--expect", metavar="N", min=0, help="Do it only if so many are selected, as --dry-run has counted them."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class TransferFilters:
    """Options that select transfers on record by properties, for lists and for commands that change them.

    They have no environment variables: see ``TransferSelection``.
    """

    PANEL: ClassVar = "Selection"

    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Those in this state, as queued or running. May be repeated."),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="URI", help="Those whose source or target begins with this."),
    ] = None
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="Those with this in their id, name, source or target."),
    ] = None
    person: Annotated[
        str | None,
        typer.Option("--person", metavar="TEXT", help="Those with this in the name of who started them."),
    ] = None
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="TEXT", help="Those with this in their name."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY[=VALUE]", help="Those with this label. May be repeated: all have to be."),
    ] = None
    created_by: Annotated[
        str | None,
        typer.Option("--created-by", metavar="NAME", help="Those that this person has started, as ada or ada@host."),
    ] = None
    created_after: Annotated[
        float | None,
        typer.Option(
            "--created-after",
            metavar="AGE|TIME",
            parser=options.moment,
            help="Those that were created since: an age as 7d or 12h, or a time.",
        ),
    ] = None
    created_before: Annotated[
        float | None,
        typer.Option(
            "--created-before", metavar="AGE|TIME", parser=options.moment, help="Those that were created before."
        ),
    ] = None

    @property
    def filter(self) -> TransferFilter:
        """The filter, as the service takes it."""
        from seqferry.db.paging import TransferFilter  # --help need not wait for it

        return TransferFilter(
            states=tuple(self.state or ()),
            text=self.text or None,
            prefix=self.prefix or None,
            person=self.person or None,
            created_by=self.created_by or None,
            name=self.name or None,
            labels=labels.wanted(self.label or ()),
            since=self.created_after,
            until=self.created_before,
        )

    @property
    def selects(self) -> bool:
        """True when an option says something: an empty text selects nothing in particular."""
        from seqferry.db.paging import ALL_TRANSFERS

        return self.filter != ALL_TRANSFERS


@dataclass(frozen=True, slots=True)
class Background:
    """Option to leave the work of a command to a running worker."""

    PANEL: ClassVar = "Options"

    detach: Annotated[
        bool,
        typer.Option("--detach", envvar="SEQFERRY_DETACH", help="Record it and return; a running worker does it."),
    ] = False


@dataclass(frozen=True, slots=True)
class Change:
    """Options that change transfers under way. No twins in the environment: those hold for processes."""

    PANEL: ClassVar = "Options"

    priority: Annotated[
        int | None,
        typer.Option(
            "--priority",
            metavar="N",
            min=-MOST_PRIORITY,
            max=MOST_PRIORITY,
            help="Transfers of a higher priority are served first, from -10 to 10.",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            metavar="N",
            min=1,
            max=MOST_REQUESTS,
            help="Requests in flight at most in each process that works at it.",
        ),
    ] = None
    max_bandwidth: Annotated[
        str | None,
        typer.Option(
            "--max-bandwidth",
            metavar="RATE",
            parser=options.written_bandwidth,
            help="Bytes per second through each process that works at it, as 200MiB, off, or a timetable.",
        ),
    ] = None
    tpslimit: Annotated[
        int | None,
        typer.Option(
            "--tpslimit",
            metavar="N",
            min=1,
            max=MOST_STARTS,
            help="Requests started per second at most by each process that works at it.",
        ),
    ] = None
    defaults: Annotated[
        bool,
        typer.Option("--defaults", help="Give up what was set before: the limits of the workers hold."),
    ] = False


@dataclass(frozen=True, slots=True)
class PipeOptions:
    """Option to spool standard input and output."""

    PANEL: ClassVar = "Storage"

    spool: Annotated[
        bool,
        typer.Option(
            "--spool",
            envvar="SEQFERRY_SPOOL",
            help="Put standard input on the disk before it goes up, so that a kill loses nothing, and print an object "
            "only after all of it was proven.",
        ),
    ] = False


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


@dataclass(frozen=True, slots=True)
class Described:
    """Options for the name and the labels of a transfer."""

    PANEL: ClassVar = "Output"

    transfer_name: Annotated[
        str | None,
        typer.Option(
            "--name",
            envvar="SEQFERRY_TRANSFER_NAME",
            metavar="TEXT",
            help="Name of the transfer in lists and notices, as 'Run 42'. Commands take it in place of the id.",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", envvar="SEQFERRY_LABEL", metavar="KEY=VALUE", help="Label of the transfer. May be repeated."
        ),
    ] = None

    @property
    def description(self) -> Description:
        """Name and labels.

        Raises:
            UsageError: one of them is not valid.
        """
        return labels.parsed(self.transfer_name, self.label or ())


@dataclass(frozen=True, slots=True)
class Relabelling:
    """Options that change the name and the labels of a transfer. They have no environment variables."""

    PANEL: ClassVar = "Options"

    new_name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Its new name; '' takes the name away.")
    ] = None
    new_label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="Label that is added or changed. May be repeated."),
    ] = None
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="KEY", help="Label that is taken away. May be repeated.")
    ] = None

    @property
    def given(self) -> tuple[str | None, dict[str, str | None]]:
        """The new name, None where it stays, and the labels by key, None for those that are taken away.

        Raises:
            UsageError: nothing is given, a label is not valid, or it is to be added and taken away.
        """
        added = labels.parsed(None, self.new_label or ()).labels
        removed = self.remove or ()
        if self.new_name is None and not added and not removed:
            raise UsageError("Nothing is to be changed: give --name, --label or --remove.")
        if both := sorted(set(removed) & added.keys()):
            raise UsageError(f"The label '{both[0][:63]}' is given with --label and with --remove; give it once.")
        return self.new_name, {**added, **dict.fromkeys(removed)}


@dataclass(frozen=True, slots=True)
class Start(Described):
    """Options for the start of a transfer: dry run, preflight, detaching, a second transfer, priority, its name."""

    PANEL: ClassVar = "Output"

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "--dryrun", envvar="SEQFERRY_DRY_RUN", help="Show what would become of each object."),
    ] = False
    preflight: Annotated[
        bool | None,
        typer.Option(
            "--preflight/--no-preflight",
            envvar="SEQFERRY_PREFLIGHT",
            help="Look at each object first, and start nothing if one would fail; or look at none. Otherwise a sample "
            "is looked at.",
        ),
    ] = None
    detach: Annotated[
        bool, typer.Option("--detach", envvar="SEQFERRY_DETACH", help="Record the transfer, print its id and return.")
    ] = False
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            envvar="SEQFERRY_NEW",
            help="Start another transfer though the same one is unfinished; it waits for that one's end. Otherwise "
            "the same command goes on with the unfinished transfer.",
        ),
    ] = False
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            envvar="SEQFERRY_PRIORITY",
            metavar="N",
            min=-MOST_PRIORITY,
            max=MOST_PRIORITY,
            help="Transfers of a higher priority are served first, from -10 to 10.",
        ),
    ] = 0


@dataclass(frozen=True, slots=True)
class Pricing:
    """Option for the prices of a dry run, and of the end of a transfer."""

    PANEL: ClassVar = "Output"

    price: options.Price = None

    def checked(self) -> str | None:
        """The region.

        Raises:
            UsageError: there are no prices of it.
        """
        if self.price is not None:
            from seqferry.model import prices

            prices.shipped(self.price)
        return self.price


@dataclass(frozen=True, slots=True)
class End:
    """Option to end a transfer without aborting its open uploads."""

    PANEL: ClassVar = "Options"

    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon",
            envvar="SEQFERRY_ABANDON",
            help="End it at once and leave its open uploads at the storage: for a transfer whose credentials are gone.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Output:
    """Options for the printed output, and for the folder where transfers are recorded."""

    PANEL: ClassVar = "Output"

    as_json: options.Json = False
    quiet: options.Quiet = False
    no_progress: options.NoProgress = False
    state_dir: options.StateDir = None


def merged(*groups: Any) -> dict[str, Any]:
    """The fields of all groups by their names."""
    found: dict[str, Any] = {}
    for group in groups:
        found |= {one.name: getattr(group, one.name) for one in fields(group)}
    return found


def of_command(function: Callable[..., Any]) -> dict[str, type[Any]]:
    """The groups of a command by the names of its parameters; none when it has parameters of its own."""
    hints = get_type_hints(function)
    kinds = {name: hints[name] for name in inspect.signature(function).parameters}
    return kinds if all(hasattr(kind, "PANEL") for kind in kinds.values()) else {}


class _Constructor:
    """The constructor of a group as Typer reads it: with Typer's options in place of those for all doors.

    Typer looks at the name, the annotations and the signature of what it calls, and finds them here.
    """

    def __init__(self, group: type[Any], found: tuple[OptionField, ...]) -> None:
        self._group = group
        self.__name__ = group.__name__
        self.__annotations__ = {one.name: Annotated[one.type, options.typer_option(one)] for one in found}
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=one.default,
                    annotation=self.__annotations__[one.name],
                )
                for one in found
            ]
        )

    def __call__(self, **given: Any) -> Any:
        return self._group(**given)


class ExpandedParameters:
    """The parameters of a command whose arguments are groups, and the call with the given values."""

    def __init__(self, function: Callable[..., Any], groups: dict[str, type[Any]]) -> None:
        self._function = function
        self._builders: dict[str, tuple[Callable[..., Any], list[str]]] = {}
        self.params: list[Parameter] = []
        self.panels: dict[str, str] = {}
        for name, kind in groups.items():
            # Typer makes a command of anything that can be called: of a group, one that returns a value of it.
            builder = typer.Typer(add_completion=False, rich_markup_mode=None)
            found = option_fields(kind)
            assert len(found) in (0, len(fields(kind))), f"{kind.__name__} mixes Typer's options with those for all"
            builder.command()(_Constructor(kind, found) if found else kind)
            command: Any = typer.main.get_command(builder)
            names = [str(parameter.name) for parameter in command.params]
            self._builders[name] = command.callback, names
            self.params += command.params
            self.panels.update(dict.fromkeys(names, str(kind.PANEL)))

    def call(self, **given: Any) -> Any:
        values = {
            name: build(**{each: given[each] for each in names}) for name, (build, names) in self._builders.items()
        }
        return self._function(**values)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket."""

    PANEL: ClassVar = "Arguments"

    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="s3://bucket.")]


@dataclass(frozen=True, slots=True)
class Object:
    """One object."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket/key.")]


@dataclass(frozen=True, slots=True)
class Version:
    """Option that selects one version of the object."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        typer.Option("--version-id", envvar="SEQFERRY_VERSION_ID", metavar="ID", help="This version of the object."),
    ] = None


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Option for the format of the answer."""

    PANEL: ClassVar = "Output"

    as_json: Annotated[bool, typer.Option("--json", envvar="SEQFERRY_JSON", help="Print NDJSON events on stdout.")] = (
        False
    )


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
class ExpectedNumber:
    """Option that says how many objects or uploads the asker has seen. It has no environment variable."""

    PANEL: ClassVar = "Selection"

    expect: Annotated[
        int | None,
        typer.Option(
            "--expect",
            metavar="N",
            min=0,
            help="Do it only if so many are there, as --dry-run has counted them; asks nothing.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Consent:
    """Option to remove objects, or abort uploads, in numbers over 1,000 without a question."""

    PANEL: ClassVar = "Selection"

    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", envvar="SEQFERRY_YES", help="Remove more than 1,000 objects without a question."),
    ] = False
