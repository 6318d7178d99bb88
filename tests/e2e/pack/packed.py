"""Archives as other programs read them."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.servers import S3Server


def stored(server: S3Server, bucket: str, key: str) -> bytes:
    """All bytes of an object."""
    return server.client().get_object(Bucket=bucket, Key=key)["Body"].read()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def by_python(archive: bytes) -> dict[str, bytes]:
    """Names and contents, as Python's tarfile reads them."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for member in opened:
            contents = opened.extractfile(member)
            if contents is not None:
                found[member.name] = contents.read()
    return found


def by_command(command: str, archive: bytes, folder: Path) -> dict[str, bytes]:
    """The same, as ``tar`` or ``bsdtar`` extracts them, without a warning."""
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    folder.mkdir()
    done = subprocess.run(
        [command, "-x", "-f", "-", "-C", str(folder)], input=archive, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode(errors="replace")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill(server: S3Server, bucket: str, prefix: str, contents: dict[str, bytes]) -> None:
    client = server.client()
    for name, data in contents.items():
        client.put_object(Bucket=bucket, Key=prefix + name, Body=data)
