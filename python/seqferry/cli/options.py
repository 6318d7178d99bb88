"""Typer's options: those made of ``option_groups``, and others that several commands share.

Each has its environment twin ``SEQFERRY_*``.

There is deliberately none for keys or secrets: those come from the AWS environment, profiles and roles, and so never
show in the process list or the shell history.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from seqferry.model.option_fields import Notation, OptionField, option_fields
from seqferry.model.option_groups import Filters
from seqferry.settings.sizes import Bandwidth, parse_rate, parse_size
from seqferry.spec.option_groups import AccessOptions, Endpoints, SpeedOptions


def size(written: str) -> int:
    """Parses an option that is a size."""
    try:
        return parse_size(written)
    except ValueError as why:
        raise typer.BadParameter(f"{why}.") from None


def rate(written: str) -> int:
    """Parses an option that is a limit of bytes per second."""
    try:
        return parse_rate(written)
    except ValueError as why:
        raise typer.BadParameter(f"{why}.") from None


def bandwidth(written: str) -> Bandwidth:
    """Parses an option that is a limit of bytes per second, or a timetable of such limits."""
    try:
        return Bandwidth.parse(written)
    except ValueError as why:
        raise typer.BadParameter(f"{why}.") from None


def written_bandwidth(written: str) -> str:
    """Parses the same, and gives it as it was written."""
    bandwidth(written)
    return written


_PARSERS: Final[dict[Notation, Callable[[str], Any]]] = {"size": size, "bandwidth": bandwidth}
"""Parsers of notations for a single text; pairs are parsed by ``spec.properties``, beside each other."""


def typer_option(field: OptionField, panel: str | None = None) -> Any:
    """Typer's option for a field of a group: what stands in its ``Annotated``."""
    option = field.option
    words = option.words or ("--" + field.name.replace("_", "-"),)
    made = typer.Option(
        *words,
        envvar="SEQFERRY_" + words[0].removeprefix("--").replace("-", "_").upper(),
        metavar=option.metavar,
        min=option.minimum,
        max=option.maximum,
        parser=None if option.notation is None else _PARSERS.get(option.notation),
        help=option.help,
        hidden=option.hidden,
        rich_help_panel=panel,
    )
    return common(made) if option.common else made


def common(option: Any) -> Any:
    """Marks an option of Typer that ``-h`` shows for a command with many options."""
    option.is_common = True
    return option


def option_of(group: type[Any], name: str) -> Any:
    """Typer's option for one field of a group, for a command that takes that field alone."""
    return next(typer_option(field, group.PANEL) for field in option_fields(group) if field.name == name)


Json = Annotated[
    bool,
    common(
        typer.Option(
            "--json", envvar="SEQFERRY_JSON", help="Print NDJSON events to standard output.", rich_help_panel="Output"
        )
    ),
]
Quiet = Annotated[
    bool,
    common(typer.Option("--quiet", "-q", envvar="SEQFERRY_QUIET", help="Print errors only.", rich_help_panel="Output")),
]
NoProgress = Annotated[
    bool,
    typer.Option(
        "--no-progress",
        envvar="SEQFERRY_NO_PROGRESS",
        help="Do not show progress. The summary is printed.",
        rich_help_panel="Output",
    ),
]

EndpointUrl = Annotated[str | None, option_of(Endpoints, "endpoint_url")]
Profile = Annotated[str | None, option_of(Endpoints, "profile")]
Region = Annotated[str | None, option_of(Endpoints, "region")]
RequestPayer = Annotated[Literal["requester"] | None, option_of(AccessOptions, "request_payer")]
NoSignRequest = Annotated[bool, option_of(Endpoints, "no_sign_request")]

MaxRequests = Annotated[int | None, option_of(SpeedOptions, "max_requests")]
MaxBandwidth = Annotated[Bandwidth | None, option_of(SpeedOptions, "max_bandwidth")]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        envvar="SEQFERRY_WAIT",
        help="Wait for a worker with other credentials if only such a worker can continue and none runs. "
        "By default the command ends with exit code 5.",
        rich_help_panel="Transfer",
    ),
]

TpsLimit = Annotated[int | None, option_of(SpeedOptions, "tpslimit")]
Memory = Annotated[int | None, option_of(SpeedOptions, "memory")]
Cache = Annotated[str | None, option_of(SpeedOptions, "cache")]
MaxCacheSize = Annotated[int | None, option_of(SpeedOptions, "max_cache_size")]

MinSize = Annotated[int | None, option_of(Filters, "min_size")]
MaxSize = Annotated[int | None, option_of(Filters, "max_size")]

BlockMemory = Annotated[
    int | None,
    common(
        typer.Option(
            "--memory",
            envvar="SEQFERRY_MOUNT_MEMORY",
            metavar="SIZE",
            parser=size,
            help="Memory limit for file contents, at least 16MiB. Default: 128MiB; 512MiB for gateways.",
            rich_help_panel="Speed",
        )
    ),
]
"""Of mounts and gateways, as the next one."""

BlockCache = Annotated[
    Path | None,
    common(
        typer.Option(
            "--cache",
            envvar="SEQFERRY_CACHE",
            metavar="DIR",
            help="Cache data that was read in this folder of a local disk. Later processes use it too.",
            rich_help_panel="Cache",
        )
    ),
]

TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        envvar="SEQFERRY_TAKE_OVER",
        help="Take over a prefix that a gateway with another cache has claimed. That gateway stops uploading.",
        rich_help_panel="Writing",
    ),
]
"""Of shares and mounts that are written."""

PlainBandwidth = Annotated[
    int | None,
    typer.Option(
        "--max-bandwidth",
        envvar="SEQFERRY_MOUNT_MAX_BANDWIDTH",
        metavar="RATE",
        parser=rate,
        help="Bandwidth limit, as 50MB/s.",
        rich_help_panel="Speed",
    ),
]
"""Options of mounts, which have limits of their own."""

TransferId = Annotated[str, typer.Argument(metavar="ID", help="Transfer id or its beginning.")]
StateDir = Annotated[
    str | None,
    typer.Option(
        # Its twin is read with the settings: only a folder given here is repeated in the commands that we suggest.
        "--state-dir",
        metavar="DIR",
        help="Folder where transfers are recorded. Default: $XDG_STATE_HOME/seqferry.",
        rich_help_panel="Output",
    ),
]

Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        envvar="SEQFERRY_PRICE",
        metavar="REGION",
        help="Show the cost at list prices of this AWS region, as us-east-1.",
        rich_help_panel="Output",
    ),
]

LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        envvar="SEQFERRY_LOG_FORMAT",
        metavar="text|json",
        help="Format of the log on standard error: text or JSON lines.",
        rich_help_panel="Output",
    ),
]


_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def moment(written: str) -> float:
    """Seconds since the epoch of an age, as ``7d``, or a time; a parser for Typer."""
    from seqferry.spec import selection  # few commands need it

    try:
        return selection.parse_time(written, time.time())
    except ValueError as why:
        raise typer.BadParameter(f"{why}.") from None


def duration(written: str) -> float:
    """Seconds of a duration such as ``90d``, ``12h`` or ``30m``; a parser for Typer."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", written)
    if match is None:
        raise typer.BadParameter(f"'{written}' is not a duration; write for example 90d, 12h or 30m.")
    return float(int(match[1]) * _SECONDS[match[2]])
