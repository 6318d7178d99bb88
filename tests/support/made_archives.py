"""Archives as other programs make them, and hostile ones."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from support.servers import S3Server
from support.trees import fill

KIB: Final = 1024
MIB: Final = 1024 * 1024
SIZES: Final = (0, 1, 511, 512, 513, 70_000, 3 * MIB, 9 * MIB + 5)
MTIME: Final = 1_700_000_000


def make_tree(folder: Path, rng: random.Random) -> None:
    """Files of several sizes, an empty folder, links of both kinds, and long names."""
    names = [f"run42/lane{number % 3}/{number:03d}.fastq" for number in range(len(SIZES))]
    fill(folder, rng, names, SIZES)
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


def make_gnu_tar(form: str, folder: Path, archive: Path) -> None:
    """Pack ``run42`` with GNU tar, in one of its formats."""
    _run("tar", f"--format={form}", "-C", str(folder), "-cf", str(archive), "run42")


def _run(program: str, *arguments: str, folder: Path | None = None) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (Debian: tar, libarchive-tools, zip, p7zip-full)")
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run([found, *arguments], check=True, env=environment, stdout=subprocess.PIPE, cwd=folder)


LINK: Final = tarfile.SYMTYPE
HARD: Final = tarfile.LNKTYPE

HOSTILE: Final[dict[str, tuple[list[tuple[dict[str, Any], bytes]], str]]] = {
    # Paths that climb, at once and later, and absolute ones.
    "../out": ([({"name": "../out"}, b"x")], "ParentComponent"),
    "a/../../out": ([({"name": "a/../../out"}, b"x")], "ParentComponent"),
    "/tmp/seqferry-out": ([({"name": "/tmp/seqferry-out"}, b"x")], "AbsolutePath"),
    # A path through a link.
    "way/out": (
        [({"name": "way", "type": LINK, "linkname": "inside"}, b""), ({"name": "way/out"}, b"x")],
        "ParentNotDirectory",
    ),
    # Links that are absolute or climb, alone, with another one, and hard ones.
    "absolute": ([({"name": "absolute", "type": LINK, "linkname": "/etc/passwd"}, b"")], "LinkAbsolute"),
    "a/climbs": ([({"name": "a/climbs", "type": LINK, "linkname": "../../etc"}, b"")], "LinkEscapes"),
    "together": (
        [
            ({"name": "a/b", "type": LINK, "linkname": "."}, b""),
            ({"name": "together", "type": LINK, "linkname": "a/b/../../.."}, b""),
        ],
        "LinkEscapes",
    ),
    "hard": ([({"name": "hard", "type": HARD, "linkname": "../../etc/passwd"}, b"")], "LinkEscapes"),
    # A hard link to a link that would climb where it lies.
    "moved": (
        [
            ({"name": "d/link", "type": LINK, "linkname": "../good"}, b""),
            ({"name": "moved", "type": HARD, "linkname": "d/link"}, b""),
        ],
        "LinkEscapes",
    ),
    # The same name again, also in other words, and a file where a folder is.
    "good": ([({"name": "good"}, b"evil")], "Duplicate"),
    "./x/../good": ([({"name": "./x/../good"}, b"evil")], "ParentComponent"),
    "folder": ([({"name": "folder/x"}, b"1"), ({"name": "folder"}, b"2")], "IsDirectory"),
}
"""Members that are refused, by name: what is added to an archive that has a file ``good``, and the code."""


def split_zip(program: str, folder: Path) -> dict[str, bytes]:
    """Volumes by name of a zip of two files that ``zip`` or ``7z`` splits."""
    (made := folder / "split").mkdir()
    for name in ("a", "b"):
        (made / name).write_bytes(random.Random(name).randbytes(100_000))
    options = {"zip": ["-q", "-s", "64k", "../x.zip"], "7z": ["a", "-v64k", "../y.zip"]}[program]
    _run(program, *options, "a", "b", folder=made)
    return {path.name: path.read_bytes() for path in sorted(folder.glob("[xy].z*"))}


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
