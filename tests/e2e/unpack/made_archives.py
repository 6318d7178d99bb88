"""Archives as other programs make them, and hostile ones."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.servers import S3Server
from support.trees import fill

KIB: Final = 1024
MIB: Final = 1024 * 1024
SIZES: Final = (0, 1, 511, 512, 513, 70_000, 3 * MIB, 9 * MIB + 5)
MTIME: Final = 1_700_000_000


def make_tree(folder: Path, rng: random.Random, *, long_names: bool = True) -> None:
    """Files of several sizes, an empty folder, links of both kinds, and (where a format has them) long names."""
    names = [f"run42/lane{number % 3}/{number:03d}.fastq" for number in range(len(SIZES))]
    fill(folder, rng, names, SIZES)
    if long_names:
        deep = "run42/" + "/".join(f"folder-number-{depth:02d}-{'x' * 40}" for depth in range(6))
        fill(folder, rng, [f"{deep}/{'n' * 180}.txt", "run42/Ünï/中文.txt"], (1000,))
    (folder / "run42/empty").mkdir()
    os.link(folder / "run42/lane0/000.fastq", folder / "run42/hard-of-empty.fastq")
    os.link(folder / "run42/lane2/005.fastq", folder / "run42/zz-hard.fastq")
    (folder / "run42/latest").symlink_to("lane1/004.fastq")
    (folder / "run42/lane1/up").symlink_to("../lane0/003.fastq")
    # Whole seconds: some formats keep no more.
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (MTIME, MTIME))


def _gnu(*options: str) -> Callable[[Path, Path], None]:
    def make(folder: Path, archive: Path) -> None:
        _run("tar", *options, "-C", str(folder), "-cf", str(archive), "run42")

    return make


def _bsd(*options: str) -> Callable[[Path, Path], None]:
    def make(folder: Path, archive: Path) -> None:
        _run("bsdtar", *options, "-C", str(folder), "-cf", str(archive), "run42")

    return make


def _python(format: int) -> Callable[[Path, Path], None]:  # noqa: A002 - as tarfile names it
    def make(folder: Path, archive: Path) -> None:
        with tarfile.open(archive, "w", format=format) as made:
            made.add(folder / "run42", "run42")

    return make


MAKERS: Final[dict[str, Callable[[Path, Path], None]]] = {
    "gnu-gnu": _gnu("--format=gnu"),
    "gnu-pax": _gnu("--format=pax"),
    "gnu-ustar": _gnu("--format=ustar"),
    "bsd-pax": _bsd("--format", "pax"),
    "bsd-gnu": _bsd("--format", "gnutar"),
    "bsd-ustar": _bsd("--format", "ustar"),
    "python-pax": _python(tarfile.PAX_FORMAT),
    "python-gnu": _python(tarfile.GNU_FORMAT),
    "python-ustar": _python(tarfile.USTAR_FORMAT),
}


def _run(program: str, *arguments: str) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (Debian: tar, libarchive-tools)")
    subprocess.run([found, *arguments], check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE)


def many(members: dict[str, bytes], *, format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002
    """An archive of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as made:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(body), MTIME
            made.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


def raw(*entries: tuple[dict[str, Any], bytes]) -> bytes:
    """An archive of members with these fields of ``tarfile.TarInfo``, without any check."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as made:
        for fields, body in entries:
            info = tarfile.TarInfo()
            info.mtime = MTIME
            info.size = len(body)
            for name, value in fields.items():
                setattr(info, name, value)
            made.addfile(info, io.BytesIO(body) if body else None)
    return buffer.getvalue()


def put(server: S3Server, bucket: str, key: str, body: bytes | Path) -> None:
    client = server.client()
    if isinstance(body, Path):
        client.upload_file(str(body), bucket, key)
    else:
        client.put_object(Bucket=bucket, Key=key, Body=body)


def names(folder: Path) -> list[str]:
    """What lies directly in a folder."""
    return sorted(path.name for path in folder.iterdir())
