"""The staging methods that are compared, and those that this machine can run."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seqferry.bench.methods import version_of
from seqferry.bench.stage.pipelines import PIPELINES
from seqferry.bench.stage.staging import ARCHIVE, Staging, StagingMethod
from seqferry.engine.mounts import is_mounted


def _untar(source: str, each: Staging) -> str:
    return f"{source} | tar -xf - -C {shlex.quote(str(each.arrived))}"


def _target_folder(each: Staging) -> str:
    return f"{each.arrived}/"


def _read_in_place(each: Staging) -> str:
    sums = shlex.quote(str(each.arrived / "sum"))
    where, names = shlex.quote(str(each.mount)), shlex.quote(str(each.names))
    return each.mount_and_run(each.data, f"(cd {where} && xargs -0 cat -- <{names}) | sha256sum >{sums}")


STAGING_METHODS: Final = (
    StagingMethod(
        "aws-recursive",
        "aws s3 cp --recursive",
        "files",
        lambda each: each.aws(each.data, str(each.arrived), "--recursive"),
        ("aws",),
    ),
    StagingMethod(
        "s5cmd", "s5cmd cp", "files", lambda each: each.s5cmd(f"{each.data}*", _target_folder(each)), ("s5cmd",)
    ),
    StagingMethod(
        "seqferry",
        "seqferry cp",
        "files",
        lambda each: each.own("cp", each.data, _target_folder(each), "--quiet"),
        ("seqferry",),
    ),
    StagingMethod(
        "aws-tar",
        "one tar by aws s3 cp, not unpacked",
        "archive",
        lambda each: each.aws(each.archive_folder + ARCHIVE, str(each.arrived / ARCHIVE)),
        ("aws",),
        with_archive=True,
    ),
    StagingMethod(
        "seqferry-tar",
        "one tar by seqferry cp, not unpacked",
        "archive",
        lambda each: each.own("cp", each.archive_folder + ARCHIVE, str(each.arrived / ARCHIVE), "--quiet"),
        ("seqferry",),
        with_archive=True,
    ),
    StagingMethod(
        "aws-pipe",
        "aws s3 cp TAR - | tar -x",
        "files",
        lambda each: _untar(each.aws(each.archive_folder + ARCHIVE, "-"), each),
        ("aws", "tar"),
        with_archive=True,
    ),
    StagingMethod(
        "seqferry-pipe",
        "seqferry cp TAR - | tar -x",
        "files",
        lambda each: _untar(each.own("cp", each.archive_folder + ARCHIVE, "-"), each),
        ("seqferry", "tar"),
        with_archive=True,
    ),
    StagingMethod(
        "unpack",
        "seqferry unpack",
        "files",
        lambda each: each.own("unpack", each.archive_folder + ARCHIVE, _target_folder(each), "--quiet"),
        ("seqferry",),
        with_archive=True,
    ),
    StagingMethod(
        "mount-cp",
        "seqferry mount, cp -r",
        "files",
        lambda each: each.mount_and_run(
            each.data, f"cp -r {shlex.quote(f'{each.mount}/.')} {shlex.quote(str(each.arrived))}"
        ),
        ("seqferry",),
        with_mount=True,
    ),
    StagingMethod(
        "mount-tar",
        "seqferry mount, tar -x",
        "files",
        lambda each: each.mount_and_run(
            each.archive_folder,
            f"tar -xf {shlex.quote(str(each.mount / ARCHIVE))} -C {shlex.quote(str(each.arrived))}",
        ),
        ("seqferry", "tar"),
        with_archive=True,
        with_mount=True,
    ),
    StagingMethod(
        "mount-read",
        "seqferry mount, some files read in place",
        "in place",
        _read_in_place,
        ("seqferry",),
        with_mount=True,
    ),
    *PIPELINES,
)
NAMES: Final = tuple(way.name for way in STAGING_METHODS)
STANDARD: Final = "aws-recursive"
"""The method that savings are compared with, if it was measured."""

_INSTALL: Final = {
    "aws": "see https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    "s5cmd": "see https://github.com/peak/s5cmd#installation",
    "tar": "install tar",
    "nextflow": "see https://docs.seqera.io/nextflow/install",
}


@dataclass(frozen=True)
class InstalledStagingMethods:
    """The methods that this machine can run, their programs with versions, and a line for each missing program."""

    ways: tuple[StagingMethod, ...]
    commands: dict[str, str]
    versions: dict[str, str]
    left_out: tuple[str, ...]


def available(wanted: Sequence[str]) -> InstalledStagingMethods:
    """Looks for the programs and for FUSE."""
    programs = {"seqferry": [sys.executable, "-m", "seqferry"]}
    for name in ("aws", "s5cmd", "tar", "nextflow"):
        found = shutil.which(name)
        if found is not None:
            programs[name] = [found]
    fuse = missing_fuse()
    ways: list[StagingMethod] = []
    lacking: dict[str, list[str]] = {}
    for way in (each for each in STAGING_METHODS if each.name in wanted):
        missing = [name for name in way.tools if name not in programs]
        if missing:
            lacking.setdefault(f"{missing[0]} is not installed: {_INSTALL[missing[0]]}", []).append(way.name)
        elif way.with_mount and fuse is not None:
            lacking.setdefault(fuse, []).append(way.name)
        else:
            ways.append(way)
    left_out = [f"{', '.join(names)}: left out, since {why}" for why, names in lacking.items()]
    used = {name for way in ways for name in way.tools}
    asked = {"s5cmd": ("version",), "nextflow": ("-version",)}
    versions = {name: version_of([*programs[name], *asked.get(name, ("--version",))]) for name in sorted(used)}
    return InstalledStagingMethods(
        tuple(ways), {name: shlex.join(words) for name, words in programs.items()}, versions, tuple(left_out)
    )


def missing_fuse() -> str | None:
    """The program or right that this machine lacks to mount; None if it can mount."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "this machine has no /dev/fuse that can be opened"
    if os.geteuid() and shutil.which("fusermount3") is None:
        return "fusermount3 is not installed (Debian: apt-get install fuse3)"
    return None


def unmount(folder: Path, environment: dict[str, str]) -> bool:
    """Ends a mount that a killed run has left, also one whose process is gone. True when none is there any more."""
    if not is_mounted(folder):
        return True
    command = [sys.executable, "-m", "seqferry", "umount", "--force", str(folder)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)  # noqa: S603 - our own
    return not is_mounted(folder)
