"""Suites of others that tests run on a mounted folder: pjdfstest and fsx, made by `make foreign-suites`."""

from __future__ import annotations

import grp
import json
import pwd
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.run import find_tool

_HINT: Final = "it is not tested (make foreign-suites)"
_CODES: Final = re.compile(r"\x1b\[[0-9;]*m")

# Without link, mkfifo and mknod, which a mount refuses.
GROUPS: Final = [
    *("chmod", "chown", "ftruncate", "mkdir", "open", "rename", "rmdir", "symlink", "truncate", "unlink", "utimensat"),
]
"""Groups of pjdfstest that are run: those of calls that a mount answers."""


@dataclass(frozen=True)
class Difference:
    """Cases that fail for one reason, and the row of the documentation that tells users of it."""

    row: str
    reason: str
    cases: list[str]


def differences(file: Path) -> list[Difference]:
    return [Difference(**each) for each in tomllib.loads(file.read_text())["difference"]]


def pjdfstest(folder: Path, scratch: Path, expected: list[Difference]) -> str:
    """The output of the suite on a folder, as root.

    Args:
        scratch: a folder on another file system, for the configuration and for renames across file systems.
        expected: cases that fail. One of them that passes is a failure.

    Raises:
        AssertionError: a case did not end as it should.
        MissingToolError: the suite is not built.
    """
    program = find_tool("pjdfstest", variable="SEQFERRY_PJDFSTEST", hint=_HINT)
    users = [pwd.getpwnam(name) for name in ("nobody", "daemon")]
    cases = [case for difference in expected for case in difference.cases]
    lines = [
        "[features]",
        *(f"{feature} = {{}}" for feature in ("utimensat", "utime_now", "rename_ctime")),
        "[settings]",
        "naptime = 0.01",
        f"expected_failures = {json.dumps(cases)}",
        "[dummy_auth]",
        f"entries = {json.dumps([[user.pw_name, grp.getgrgid(user.pw_gid).gr_name] for user in users])}",
    ]
    (scratch / "pjdfstest.toml").write_text("\n".join(lines))
    done = subprocess.run(
        [program, "-c", scratch / "pjdfstest.toml", "-p", folder, "-s", scratch, *(f"{group}::" for group in GROUPS)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=200,
    )
    said = _CODES.sub("", done.stdout + done.stderr)
    assert done.returncode == 0, said
    return said


_FSX_WEIGHTS: Final = {
    "close_open": 2,
    "invalidate": 1,
    "fsync": 1,
    "fdatasync": 1,
    "mapread": 10,
    "mapwrite": 10,
    "read": 10,
    "write": 10,
    "sendfile": 2,
    "posix_fadvise": 1,
    "copy_file_range": 3,
}


def fsx_program() -> Path:
    """fsx.

    Raises:
        MissingToolError: the suite is not built.
    """
    return find_tool("fsx", variable="SEQFERRY_FSX", hint=_HINT)


def fsx_settings(*, length: int, keeps_size: bool = False) -> str:
    """Settings of fsx: the operations, and the most bytes that the file has. See ``fsx``."""
    # Truncation, and closing with another size, are not for files that keep their size.
    weights = _FSX_WEIGHTS | ({"close_open": 0, "truncate": 0} if keeps_size else {"truncate": 4})
    lines = [f"flen = {length}", f"blockmode = {json.dumps(keeps_size)}", "[weights]"]
    return "\n".join([*lines, *(f"{name} = {weight}" for name, weight in weights.items())])


def fsx(file: Path, scratch: Path, *, seed: int, operations: int, length: int, keeps_size: bool = False) -> None:
    """Runs random operations on a file, each read compared with what was written.

    Args:
        scratch: a folder for the configuration, and for what the suite keeps of a failure.
        length: the most bytes that the file has.
        keeps_size: the file is there, with ``length`` bytes. It is filled anew and never truncated.

    Raises:
        AssertionError: a read gave other bytes; the text holds the last operations.
        MissingToolError: the suite is not built.
    """
    (scratch / "fsx.toml").write_text(fsx_settings(length=length, keeps_size=keeps_size))
    command = [fsx_program(), "-f", scratch / "fsx.toml", "-N", str(operations), "-S", str(seed), "-P", scratch, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"fsx with seed {seed}: {done.stdout}{done.stderr}"
