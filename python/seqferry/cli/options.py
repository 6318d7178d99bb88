"""The options that several commands share, each with its environment twin ``SEQFERRY_*``.

There is deliberately none for keys or secrets: those come from the AWS environment, profiles and roles, and so never
show in the process list or the shell history.
"""

from __future__ import annotations

from typing import Annotated

import typer

from seqferry.config import MOST_REQUESTS, Bandwidth, parse_size
from seqferry.models import MOST_ATTEMPTS, MOST_STARTS


def size(written: str) -> int:
    """Parses an option that is a size."""
    try:
        return parse_size(written)
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


Json = Annotated[bool, typer.Option("--json", envvar="SEQFERRY_JSON", help="Print NDJSON events on stdout.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", envvar="SEQFERRY_QUIET", help="Print errors only."),
]
NoProgress = Annotated[
    bool,
    typer.Option("--no-progress", envvar="SEQFERRY_NO_PROGRESS", help="No progress, only the summary."),
]

Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        envvar="SEQFERRY_INCLUDE",
        metavar="PATTERN",
        help="Copy what matches after all. The last of --include and --exclude that matches decides.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        envvar="SEQFERRY_EXCLUDE",
        metavar="PATTERN",
        help="Leave out what matches: *, ? and [...] against the name below SRC; * crosses slashes.",
    ),
]
# On the command line --include and --exclude become values of this option, which keeps their order.
Rules = Annotated[list[str] | None, typer.Option("--rule", envvar="SEQFERRY_RULE", metavar="RULE", hidden=True)]

EndpointUrl = Annotated[
    str | None,
    typer.Option("--endpoint-url", envvar="SEQFERRY_ENDPOINT_URL", metavar="URL", help="S3 endpoint other than AWS."),
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", envvar="SEQFERRY_PROFILE", metavar="NAME", help="AWS profile to use."),
]
Region = Annotated[
    str | None,
    typer.Option("--region", envvar="SEQFERRY_REGION", metavar="NAME", help="AWS region."),
]
NoSignRequest = Annotated[
    bool,
    typer.Option(
        "--no-sign-request", envvar="SEQFERRY_NO_SIGN_REQUEST", help="Read the source anonymously (public buckets)."
    ),
]


def _of_side(side: str, option: str, metavar: str) -> object:
    return typer.Option(
        f"--{side}-{option}",
        envvar=f"SEQFERRY_{side}_{option}".upper().replace("-", "_"),
        metavar=metavar,
        help=f"--{option} for the {side} only.",
    )


SourceEndpointUrl = Annotated[str | None, _of_side("source", "endpoint-url", "URL")]
TargetEndpointUrl = Annotated[str | None, _of_side("target", "endpoint-url", "URL")]
SourceProfile = Annotated[str | None, _of_side("source", "profile", "NAME")]
TargetProfile = Annotated[str | None, _of_side("target", "profile", "NAME")]
SourceRegion = Annotated[str | None, _of_side("source", "region", "NAME")]
TargetRegion = Annotated[str | None, _of_side("target", "region", "NAME")]

MaxRequests = Annotated[
    int | None,
    typer.Option(
        "--max-requests",
        envvar="SEQFERRY_MAX_REQUESTS",
        metavar="N",
        min=1,
        max=MOST_REQUESTS,
        help="Requests in flight at most, when this process does the work.",
    ),
]
MaxBandwidth = Annotated[
    Bandwidth | None,
    typer.Option(
        "--max-bandwidth",
        envvar="SEQFERRY_MAX_BANDWIDTH",
        metavar="RATE",
        parser=bandwidth,
        help="Bytes per second that pass through this process at most, as 200MiB; or a timetable, as "
        "'08:00,50MB/s 18:00,off'. Copies inside the storage do not count.",
    ),
]
TpsLimit = Annotated[
    int | None,
    typer.Option(
        "--tpslimit",
        envvar="SEQFERRY_TPSLIMIT",
        metavar="N",
        min=1,
        max=MOST_STARTS,
        help="Requests started per second at most; on record with the transfer, for each process that works at it.",
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option(
        "--attempts",
        envvar="SEQFERRY_ATTEMPTS",
        metavar="N",
        min=1,
        max=MOST_ATTEMPTS,
        help="Tries of each request at most, on record with the transfer. Default: AWS_MAX_ATTEMPTS, or 11.",
    ),
]
Memory = Annotated[
    int | None,
    typer.Option(
        "--memory",
        envvar="SEQFERRY_MEMORY",
        metavar="SIZE",
        parser=size,
        help="Bytes of buffers at most, when this process does the work. Default: 48MiB for each core, "
        "at least 96MiB and at most 256MiB.",
    ),
]

Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        envvar="SEQFERRY_CACHE",
        metavar="DIR",
        help="Read downloads through the disk cache of mounts in this folder: what is there is not fetched again, the "
        "rest is kept.",
    ),
]
MaxCacheSize = Annotated[
    int | None,
    typer.Option(
        "--max-cache-size",
        envvar="SEQFERRY_MAX_CACHE_SIZE",
        metavar="SIZE",
        parser=size,
        help="Bytes of the cache at most. Default: all but 1GiB of the disk.",
    ),
]

PlainBandwidth = Annotated[
    int | None,
    typer.Option(
        "--max-bandwidth",
        envvar="SEQFERRY_MOUNT_MAX_BANDWIDTH",
        metavar="RATE",
        parser=size,
        help="Bytes per second at most, as 200MiB.",
    ),
]
"""Of mounts, which have limits of their own."""

TransferId = Annotated[str, typer.Argument(metavar="ID", help="A transfer's id, or the start of it.")]
StateDir = Annotated[
    str | None,
    typer.Option(
        # Its twin is read with the settings: only a folder given here is repeated in the commands that we suggest.
        "--state-dir",
        metavar="DIR",
        help="Where transfers are recorded. Default: $XDG_STATE_HOME/seqferry.  [env var: SEQFERRY_STATE_DIR]",
    ),
]

LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        envvar="SEQFERRY_LOG_FORMAT",
        metavar="text|json",
        help="Form of the log on stderr: lines for people, or a line of JSON each.",
    ),
]
