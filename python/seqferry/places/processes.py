"""Names of processes, by which another process of the same machine knows whether they have ended.

A process id alone is not enough: ids are reused, and containers that share a host name have their own ids. The name
therefore holds the machine (host name, boot, namespace of process ids) and the start time of the process. For a process
on another machine the answer is not known.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_NAME: Final = r"@([0-9a-f]{12})\.([1-9][0-9]{0,9})\.([0-9]{1,20})"
_DEAD: Final = ("Z", "X")
"""States of a process that has ended, of which its parent has not taken notice yet."""
_STATE, _START = 0, 19
"""Places in /proc/PID/stat behind the name of the command (proc(5): fields 3 and 22)."""


def name_suffix() -> str:
    """The name of this process, to append to another name; empty if the system does not provide the facts for it."""
    machine, facts = _machine(), _stat(os.getpid())
    return "" if machine is None or facts is None else f"@{machine}.{os.getpid()}.{facts[_START]}"


def has_ended(named: str) -> bool:
    """True when the process with the ``name_suffix`` at the end of ``named`` has ended; False if that is not known."""
    found = re.search(_NAME, named)
    if found is None or found.end() != len(named) or found[1] != _machine():
        return False
    pid = int(found[2])
    try:
        # Where /proc hides the processes of other users, this one still sees them.
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    facts = _stat(pid)
    if facts is None:
        return False
    return facts[_START] != found[3] or (facts[_STATE] in _DEAD and _threads(pid) <= 1)


@cache
def _machine() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except (OSError, ValueError):
        return None
    text = "\0".join((socket.gethostname(), boot, str(namespace)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name of the command stands in parentheses, and may hold any character.
    facts = text.rpartition(b")")[2].decode("ascii", "replace").split()
    return facts if len(facts) > _START else None


def _threads(pid: int) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return 0
