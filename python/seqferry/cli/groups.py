"""Groups of options: frozen dataclasses that commands share, each shown as a panel of ``--help``.

A command is a function whose parameters are all groups. Its options are those of its groups; what was given comes back
as values of the groups, so that no command lists an option twice.

What must stay true: names of fields are unique among the groups of a command, and are the names that ``build_spec`` and
the HTTP API have for the same thing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import typer

from seqferry import key_lists
from seqferry.cli import options
from seqferry.config import MOST_REQUESTS
from seqferry.errors import UsageError
from seqferry.models import MOST_PRIORITY, MOST_STARTS, IfExists, S3Location, Symlinks, Verify
from seqferry.spec import check_place, parse_uri

if TYPE_CHECKING:
    from typer._click.core import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """From where to where."""

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
            UsageError: there is none: the one place that was given is the target.
        """
        if not self.sources:
            raise UsageError("Missing argument 'DST'. See `seqferry cp --help`.")
        return self.sources[0]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A transfer that is on record."""

    PANEL: ClassVar = "Arguments"

    transfer: options.TransferId


@dataclass(frozen=True, slots=True)
class Which:
    """Transfers that are on record: by their ids, or many by what they are.

    No twins in the environment, so that nothing is given up by accident.
    """

    PANEL: ClassVar = "Arguments"

    transfers: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of transfers, or the starts of them. Without: see the options."),
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="All transfers that the command is for.")] = False
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Those in this state, as queued or running. May be repeated."),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="URI", help="Those whose source or target begins with this."),
    ] = None
    created_by: Annotated[
        str | None,
        typer.Option("--created-by", metavar="NAME", help="Those that this person has started, as ada or ada@host."),
    ] = None


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
class Selection:
    """Options on existing, archived and unsettled objects, symlinks, wildcards and empty folders."""

    PANEL: ClassVar = "Selection"

    if_exists: Annotated[
        IfExists,
        typer.Option(
            "--if-exists",
            envvar="SEQFERRY_IF_EXISTS",
            help="An object that exists at the target: same = skip when identical, else copy; skip = leave it; "
            "overwrite = copy always; fail = report it as failed.",
        ),
    ] = "same"
    symlinks: Annotated[
        Symlinks,
        typer.Option(
            "--symlinks",
            envvar="SEQFERRY_SYMLINKS",
            help="Links in a local folder: follow = copy what they lead to; skip = leave them out; keep = copy the "
            "links themselves, which a download with it makes again.",
        ),
    ] = "follow"
    restore: Annotated[
        bool,
        typer.Option(
            "--restore",
            envvar="SEQFERRY_RESTORE",
            help="Ask for readable copies of archived objects (Glacier), wait for them (hours), and copy.",
        ),
    ] = False
    restore_days: Annotated[
        int | None,
        typer.Option(
            "--restore-days",
            "--days",
            envvar="SEQFERRY_RESTORE_DAYS",
            metavar="N",
            min=1,
            help="How long restored copies are kept. Default: 7.",
        ),
    ] = None
    restore_tier: Annotated[
        Literal["Standard", "Bulk", "Expedited"] | None,
        typer.Option(
            "--restore-tier",
            "--tier",
            envvar="SEQFERRY_RESTORE_TIER",
            help="How quickly they are restored. Default: Standard.",
        ),
    ] = None
    settle: Annotated[
        str | None,
        typer.Option(
            "--settle",
            envvar="SEQFERRY_SETTLE",
            metavar="AGE",
            help="Leave alone what was changed within this age, as 60s: it may still grow.",
        ),
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", envvar="SEQFERRY_RAW", help="Take * and ? in SRC as they are, not as wildcards.")
    ] = False
    empty_directories: Annotated[
        bool,
        typer.Option(
            "--empty-directories",
            envvar="SEQFERRY_EMPTY_DIRECTORIES",
            help="Keep the empty folders of a local folder as empty objects with a last slash.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Filters:
    """Options that filter objects by size and time of change."""

    PANEL: ClassVar = "Selection"

    min_size: Annotated[
        int | None,
        typer.Option(
            "--min-size",
            envvar="SEQFERRY_MIN_SIZE",
            metavar="SIZE",
            parser=options.size,
            help="Only objects of this size or larger.",
        ),
    ] = None
    max_size: Annotated[
        int | None,
        typer.Option(
            "--max-size",
            envvar="SEQFERRY_MAX_SIZE",
            metavar="SIZE",
            parser=options.size,
            help="Only objects of this size or smaller.",
        ),
    ] = None
    newer_than: Annotated[
        str | None,
        typer.Option(
            "--newer-than",
            envvar="SEQFERRY_NEWER_THAN",
            metavar="AGE",
            help="Only objects changed since: an age as 7d or 12h, or a time as 2026-11-01.",
        ),
    ] = None
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            envvar="SEQFERRY_OLDER_THAN",
            metavar="AGE",
            help="Only objects not changed since: an age or a time, as for --newer-than.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Versions:
    """Options that select the versions of an object to copy."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        typer.Option(
            "--version-id",
            envvar="SEQFERRY_VERSION_ID",
            metavar="ID",
            help="Copy this version of the object SRC; of several objects see --files-from FILE.csv.",
        ),
    ] = None
    all_versions: Annotated[
        bool,
        typer.Option(
            "--all-versions",
            envvar="SEQFERRY_ALL_VERSIONS",
            help="Copy all versions of each object, oldest first, to a bucket that keeps versions.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Names:
    """Options that select and rename objects by their keys. ``selecting`` makes rules and lists of keys of them."""

    PANEL: ClassVar = "Selection"

    include: options.Include = None
    exclude: options.Exclude = None
    rules: options.Rules = None
    files_from: Annotated[
        str | None,
        typer.Option(
            "--files-from",
            envvar="SEQFERRY_FILES_FROM",
            metavar="FILE",
            help="Only what FILE names, one key below SRC (or member of an archive) on a line; in FILE.csv "
            "key[,version_id[,target_key]]; in s3://.../manifest.json an S3 Inventory; - for standard input.",
        ),
    ] = None
    files_format: Annotated[
        key_lists.Format,
        typer.Option(
            "--files-format",
            envvar="SEQFERRY_FILES_FORMAT",
            help="What FILE holds; auto goes by its name.",
        ),
    ] = "auto"
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            envvar="SEQFERRY_RENAME",
            metavar="RULE",
            help="Change names below DST as sed does: 's/PATTERN/REPLACEMENT/', with g for every match and i for upper "
            "and lower case alike. Can be repeated. Nothing is copied if two objects would get one name.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Removal:
    """Options that remove objects at the target."""

    PANEL: ClassVar = "Selection"

    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            envvar="SEQFERRY_DELETE",
            help="Once all has arrived, remove what is at DST and not at SRC.",
        ),
    ] = False
    max_delete: Annotated[
        int | None,
        typer.Option(
            "--max-delete",
            envvar="SEQFERRY_MAX_DELETE",
            metavar="N",
            min=0,
            help="Remove nothing if more than N objects would be.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Speed:
    """Limits of this process. Only those hold that are given."""

    PANEL: ClassVar = "Speed"

    max_requests: options.MaxRequests = None
    max_bandwidth: options.MaxBandwidth = None
    tpslimit: options.TpsLimit = None
    attempts: options.Attempts = None
    memory: options.Memory = None
    cache: options.Cache = None
    max_cache_size: options.MaxCacheSize = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Options for the part size, the copy threshold and the page cache."""

    PANEL: ClassVar = "Speed"

    part_size: Annotated[
        int | None,
        typer.Option(
            "--part-size",
            envvar="SEQFERRY_PART_SIZE",
            metavar="SIZE",
            parser=options.size,
            help="Part size of big objects, as 64MiB. Default: chosen per object.",
        ),
    ] = None
    copy_threshold: Annotated[
        int | None,
        typer.Option(
            "--copy-threshold",
            envvar="SEQFERRY_COPY_THRESHOLD",
            metavar="SIZE",
            parser=options.size,
            help="Objects up to this size are copied in one request. Default: 128MiB or what proves more; 16MiB for "
            "what passes through this machine.",
        ),
    ] = None
    page_cache: Annotated[
        bool,
        typer.Option(
            "--page-cache",
            envvar="SEQFERRY_PAGE_CACHE",
            help="Leave downloads in the system's page cache, for a program that reads them next. Otherwise large ones "
            "pass it, which takes less CPU and leaves it to others.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Storage:
    """Options for verification, storage class, MD5 and permissions of the copies."""

    PANEL: ClassVar = "Storage"

    verify: Annotated[
        Verify,
        typer.Option(
            "--verify",
            envvar="SEQFERRY_VERIFY",
            help="auto = the strongest evidence that needs no second read; checksum = a checksum or digest, "
            "where there is none both sides are read; content = both sides are always read.",
        ),
    ] = "auto"
    storage_class: Annotated[
        str | None,
        typer.Option(
            "--storage-class", envvar="SEQFERRY_STORAGE_CLASS", metavar="NAME", help="Storage class of the copies."
        ),
    ] = None
    md5: Annotated[
        bool,
        typer.Option(
            "--md5",
            envvar="SEQFERRY_MD5",
            help="Keep the MD5 of each local file with its object (metadata md5chksum), as rclone does and checks it. "
            "Files that go in parts are read once more for it, before.",
        ),
    ] = False
    preserve_permissions: Annotated[
        bool,
        typer.Option(
            "--preserve-permissions",
            envvar="SEQFERRY_PRESERVE_PERMISSIONS",
            help="Give downloads the permissions that are kept with their objects, whatever the umask says. Otherwise "
            "those only narrow what a new file gets. Setuid, setgid and sticky bits are never set.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Streams:
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


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Options for endpoint, credentials and region: for both sides, or for one of them."""

    PANEL: ClassVar = "Storage"

    endpoint_url: options.EndpointUrl = None
    source_endpoint_url: options.SourceEndpointUrl = None
    target_endpoint_url: options.TargetEndpointUrl = None
    profile: options.Profile = None
    source_profile: options.SourceProfile = None
    target_profile: options.TargetProfile = None
    region: options.Region = None
    source_region: options.SourceRegion = None
    target_region: options.TargetRegion = None
    no_sign_request: options.NoSignRequest = False


@dataclass(frozen=True, slots=True)
class OneEndpoint:
    """Options for endpoint, credentials and region of a command with one side."""

    PANEL: ClassVar = "Storage"

    endpoint_url: options.EndpointUrl = None
    profile: options.Profile = None
    region: options.Region = None


def bucket_of(written: str, endpoint: OneEndpoint) -> S3Location:
    """The bucket that ``s3://bucket``, or its name alone, means.

    Raises:
        UsageError: it is no bucket.
    """
    bucket, key = parse_uri(written if "://" in written else f"s3://{written}")
    if key:
        raise UsageError(f"'{written}' names something in a bucket; write the bucket alone: s3://{bucket}")
    place = S3Location(bucket, endpoint_url=endpoint.endpoint_url, region=endpoint.region, profile=endpoint.profile)
    check_place(place)
    return place


@dataclass(frozen=True, slots=True)
class Start:
    """Options for the start of a transfer: dry run, preflight, detaching, a second transfer, priority."""

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


class Expanded:
    """The parameters of a command that takes groups, and the call with what was given for them."""

    def __init__(self, function: Callable[..., Any], groups: dict[str, type[Any]]) -> None:
        self._function = function
        self._builders: dict[str, tuple[Callable[..., Any], list[str]]] = {}
        self.params: list[Parameter] = []
        self.panels: dict[str, str] = {}
        for name, kind in groups.items():
            # Typer makes a command of anything that can be called: of a group, one that returns a value of it.
            builder = typer.Typer(add_completion=False, rich_markup_mode=None)
            builder.command()(kind)
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
