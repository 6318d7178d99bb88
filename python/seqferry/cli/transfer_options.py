"""Groups of options that name transfers on record, and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from seqferry.cli import options
from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import MAX_PRIORITY
from seqferry.model.option_groups import MAX_REQUEST_RATE
from seqferry.settings.config import MOST_REQUESTS

if TYPE_CHECKING:
    from seqferry.db.paging import TransferFilter


@frozen
class RecordedTransfer:
    """Argument that names a transfer on record."""

    PANEL: ClassVar = "Arguments"

    transfer: options.TransferId


@frozen
class TransferSelection:
    """Options that name transfers on record, for commands that change them.

    They have no environment variables, so that no command changes transfers by accident.
    """

    PANEL: ClassVar = "Arguments"

    transfers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="Transfer ids or their beginnings. Without ids give an option that selects."
        ),
    ] = None
    everything: Annotated[
        bool,
        options.common(
            typer.Option(
                "--all", help="Select all transfers to which the command applies.", rich_help_panel="Selection"
            )
        ),
    ] = False
    dry_run: Annotated[
        bool,
        options.common(
            typer.Option(
                "--dry-run",
                "--dryrun",
                help="Show the selected transfers without changing them.",
                rich_help_panel="Selection",
            )
        ),
    ] = False
    expect: Annotated[
        int | None,
        options.common(
            typer.Option(
                "--expect",
                metavar="N",
                min=0,
                help="Proceed only if exactly N transfers are selected, as counted by --dry-run.",
                rich_help_panel="Selection",
            )
        ),
    ] = None


@frozen
class TransferFilters:
    """Options that select transfers on record by properties, for lists and for commands that change them.

    They have no environment variables: see ``TransferSelection``.
    """

    PANEL: ClassVar = "Selection"

    state: Annotated[
        list[str] | None,
        options.common(
            typer.Option(
                "--state",
                metavar="STATE",
                help="Select transfers in this state, as queued or running. Can be repeated.",
            )
        ),
    ] = None
    prefix: Annotated[
        str | None,
        options.common(
            typer.Option("--prefix", metavar="URI", help="Select transfers whose source or target begins with URI.")
        ),
    ] = None
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="Select transfers with this text in id, name, source or target."),
    ] = None
    person: Annotated[
        str | None,
        typer.Option("--person", metavar="TEXT", help="Select transfers whose creator's name contains this text."),
    ] = None
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="TEXT", help="Select transfers whose name contains this text."),
    ] = None
    label: Annotated[
        list[str] | None,
        options.common(
            typer.Option(
                "--label",
                metavar="KEY[=VALUE]",
                help="Select transfers with this label. Can be repeated: all must match.",
            )
        ),
    ] = None
    created_by: Annotated[
        str | None,
        options.common(
            typer.Option("--created-by", metavar="NAME", help="Select transfers of this creator, as ada or ada@host.")
        ),
    ] = None
    created_after: Annotated[
        float | None,
        typer.Option(
            "--created-after",
            metavar="AGE|TIME",
            parser=options.moment,
            help="Select transfers created after this time: an age, as 7d or 12h, or a date.",
        ),
    ] = None
    created_before: Annotated[
        float | None,
        typer.Option(
            "--created-before",
            metavar="AGE|TIME",
            parser=options.moment,
            help="Select transfers created before this time.",
        ),
    ] = None

    @property
    def filter(self) -> TransferFilter:
        """The filter, as the service takes it."""
        from seqferry.db.paging import TransferFilter  # --help need not wait for it

        return TransferFilter(
            states=tuple(self.state or ()),
            text=self.text,
            prefix=self.prefix,
            person=self.person,
            created_by=self.created_by,
            name=self.name,
            labels=labels.parse_filter(self.label or ()),
            since=self.created_after,
            until=self.created_before,
        )

    @property
    def selects(self) -> bool:
        """True when an option is given."""
        from seqferry.db.paging import ALL_TRANSFERS

        return self.filter != ALL_TRANSFERS


@frozen
class Change:
    """Options that change transfers under way. No twins in the environment: those hold for processes."""

    PANEL: ClassVar = "Options"

    priority: Annotated[
        int | None,
        typer.Option(
            "--priority",
            metavar="N",
            min=-MAX_PRIORITY,
            max=MAX_PRIORITY,
            help="Priority from -10 to 10. Higher runs first.",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            metavar="N",
            min=1,
            max=MOST_REQUESTS,
            help="Maximum concurrent requests, shared by the workers of the transfer.",
        ),
    ] = None
    max_bandwidth: Annotated[
        str | None,
        typer.Option(
            "--max-bandwidth",
            metavar="RATE",
            parser=options.written_bandwidth,
            help="Bandwidth limit, shared by the workers of the transfer: 200MiB, off, or a timetable.",
        ),
    ] = None
    tpslimit: Annotated[
        int | None,
        typer.Option(
            "--tpslimit",
            metavar="N",
            min=1,
            max=MAX_REQUEST_RATE,
            help="Limit of requests started per second, shared by the workers of the transfer.",
        ),
    ] = None
    defaults: Annotated[
        bool,
        typer.Option("--defaults", help="Reset to the limits of the workers."),
    ] = False


@frozen
class FailureCause:
    """Option that names one cause of failures. No twin in the environment: see ``TransferSelection``."""

    PANEL: ClassVar = "Options"

    cause: Annotated[
        str | None,
        options.common(
            typer.Option(
                "--cause",
                metavar="CODE|ID",
                help="Only retry objects that failed for this cause: an error code, as AccessDenied, or a cause id"
                " of --json.",
            )
        ),
    ] = None


@frozen
class Relabelling:
    """Options that change the name and the labels of a transfer. They have no environment variables."""

    PANEL: ClassVar = "Options"

    new_name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="New name. '' removes the name.")] = (
        None
    )
    new_label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="Label to add or change. Can be repeated."),
    ] = None
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="KEY", help="Label to remove. Can be repeated.")
    ] = None

    @property
    def given(self) -> tuple[str | None, dict[str, str | None]]:
        """The new name, None where it stays, and the labels by key, None for those that are taken away.

        Raises:
            UsageError: nothing is given, a label is not valid, or it is to be added and taken away.
        """
        added = labels.parse(None, self.new_label or ()).labels
        removed = self.remove or ()
        if self.new_name is None and not added and not removed:
            raise UsageError("Nothing to change: give --name, --label or --remove.")
        if both := sorted(set(removed) & added.keys()):
            raise UsageError(f"The label '{both[0][:63]}' is given with --label and with --remove; give it once.")
        return self.new_name, {**added, **dict.fromkeys(removed)}
