"""The programs that ``bench_mount.py`` compares: how each shows a bucket as a folder, and one folder that it serves.

Every program runs in the foreground, mounts read-only and keeps its defaults. ``rclone`` needs a folder for what it
has read in any case; the others keep none on the disk unless the bench gives one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import tool
from seqferry.bench import measure
from seqferry.bench.methods import base_environment, version_of
from support.mounts import missing_fuse
from support.run import MissingToolError, find_tool
from support.servers import S3Server

READY_WITHIN = 30.0
"""Seconds. Each is ready in a few."""


@dataclass(frozen=True)
class MountSetup:
    """What is mounted, and where."""

    server: S3Server
    bucket: str
    folder: Path
    scratch: Path
    """A new folder for this mount: state, configuration, and a cache where the program must have one."""
    cache: Path | None
    """A folder of the disk for what was read. It outlives the mount."""


@dataclass(frozen=True)
class Program:
    name: str
    command: Callable[[MountSetup], list[str]]
    version: Callable[[], str]
    environment: Callable[[MountSetup], dict[str, str]] = lambda _: {}
    archives: bool = False
    """Shows the members of ``x.tar`` below ``x.tar.d``."""


def _installed(name: str) -> str:
    hint = f"it is no part of this checkout: put {name} on the path"
    return str(find_tool(name, variable=f"SEQFERRY_{name.upper().replace('-', '_')}", hint=hint))


def _seqferry(place: MountSetup) -> list[str]:
    cache = ["--cache", str(place.cache)] if place.cache else []
    return [tool("seqferry"), "mount", f"s3://{place.bucket}", str(place.folder), "--foreground", *cache]


def _rclone(place: MountSetup) -> list[str]:
    cache = place.cache or place.scratch / "cache"
    return [
        *(tool("rclone"), "mount", f"store:{place.bucket}", str(place.folder), "--config", os.devnull),
        *("--read-only", "--vfs-cache-mode", "full", "--cache-dir", str(cache), "--s3-no-check-bucket"),
    ]


def _rclone_remote(place: MountSetup) -> dict[str, str]:
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": place.server.endpoint_url}
    return {f"RCLONE_CONFIG_STORE_{name}": value for name, value in settings.items()}


def _s3fs(place: MountSetup) -> list[str]:
    options = f"ro,use_path_request_style,url={place.server.endpoint_url},endpoint={place.server.region}"
    cache = f",use_cache={place.cache}" if place.cache else ""
    return [_installed("s3fs"), place.bucket, str(place.folder), "-f", "-o", options + cache]


def _mount_s3(place: MountSetup) -> list[str]:
    cache = ["--cache", str(place.cache)] if place.cache else []
    return [
        *(_installed("mount-s3"), place.bucket, str(place.folder), "--foreground", "--read-only"),
        *("--endpoint-url", place.server.endpoint_url, "--force-path-style", "--region", place.server.region, *cache),
    ]


def _geesefs(place: MountSetup) -> list[str]:
    cache = ["--cache", str(place.cache)] if place.cache else []
    return [
        *(_installed("geesefs"), "-f", "-o", "ro", "--endpoint", place.server.endpoint_url),
        *("--region", place.server.region, *cache, place.bucket, str(place.folder)),
    ]


PROGRAMS = (
    Program(
        "seqferry",
        _seqferry,
        lambda: version_of([tool("seqferry"), "--version"]),
        lambda place: {"SEQFERRY_STATE_DIR": str(place.scratch / "state")},
        archives=True,
    ),
    Program("mount-s3", _mount_s3, lambda: version_of([_installed("mount-s3"), "--version"])),
    Program("rclone", _rclone, lambda: version_of([tool("rclone"), "version"]), _rclone_remote),
    Program("s3fs", _s3fs, lambda: version_of([_installed("s3fs"), "--version"])),
    Program("geesefs", _geesefs, lambda: version_of([_installed("geesefs"), "--version"])),
)


def available(names: list[str] | None) -> tuple[dict[Program, str], list[str]]:
    """The programs that are installed, each with its version, and a line for each that is not.

    Raises:
        MissingToolError: this machine cannot mount at all.
    """
    if missing := missing_fuse():
        raise MissingToolError(missing)
    found: dict[Program, str] = {}
    left_out: list[str] = []
    for program in PROGRAMS:
        if names and program.name not in names:
            continue
        try:
            found[program] = program.version()
        except MissingToolError as error:
            left_out.append(f"{program.name} is left out: {error}")
    return found, left_out


@dataclass(frozen=True)
class ServedFolder:
    """A folder that a program serves now."""

    folder: Path
    pid: int
    program: Program

    def cpu_s(self) -> float:
        return measure.usage(self.pid).cpu_s


@contextmanager
def mounted(
    program: Program, server: S3Server, bucket: str, base: Path, cache: Path | None = None
) -> Iterator[ServedFolder]:
    """A folder served by the program until the end of the block, however it ends.

    Raises:
        RuntimeError: the program did not mount; the text has the end of its output.
    """
    with tempfile.TemporaryDirectory(prefix=f"{program.name}-", dir=base) as name:
        scratch = Path(name)
        folder = scratch / "mnt"
        folder.mkdir()
        place = MountSetup(server, bucket, folder, scratch, cache)
        environment: dict[str, Any] = {
            **base_environment(),
            "HOME": str(scratch),
            **{name: value for name, value in server.environment(server.admin).items() if name != "AWS_ENDPOINT_URL"},
            **({"AWS_ENDPOINT_URL": server.endpoint_url} if program.name == "seqferry" else {}),
            **program.environment(place),
        }
        # s3fs takes these names.
        environment["AWSACCESSKEYID"] = environment["AWS_ACCESS_KEY_ID"]
        environment["AWSSECRETACCESSKEY"] = environment["AWS_SECRET_ACCESS_KEY"]
        with (scratch / "output").open("w+b") as output:
            process = subprocess.Popen(
                program.command(place),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=scratch,
            )
            try:
                _await_ready(process, folder, scratch / "output", program.name)
                yield ServedFolder(folder, process.pid, program)
            finally:
                _unmount(process, folder)


def _await_ready(process: subprocess.Popen[bytes], folder: Path, output: Path, name: str) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not os.path.ismount(folder):
        if process.poll() is not None or time.monotonic() > deadline:
            said = output.read_text(errors="replace").strip()[-500:]
            raise RuntimeError(f"{name} does not mount: {said or 'it said nothing'}")
        time.sleep(0.02)


def _unmount(process: subprocess.Popen[bytes], folder: Path) -> None:
    """The program ends by itself when its folder is unmounted; whatever does not end is killed."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(_umount(folder), capture_output=True, check=False, timeout=60)
        if done.returncode == 0:
            process.wait(60)
    if process.poll() is None:
        process.kill()
        process.wait()
    while os.path.ismount(folder):
        subprocess.run(_umount(folder, "-l" if os.geteuid() == 0 else "-z"), capture_output=True, check=False)


def _umount(folder: Path, *options: str) -> list[str]:
    command = ["umount"] if os.geteuid() == 0 else [shutil.which("fusermount3") or "fusermount", "-u"]
    return [*command, *options, str(folder)]
