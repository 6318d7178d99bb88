"""What building and starting an image share: its user, its folder of state, its architecture, and running a command."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

USER: Final = 65532
"""The number that images without a shell use for a user without rights."""

STATE: Final = "var/lib/seqferry"


class ImageError(Exception):
    """An image that cannot be made, or does not start."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Names of an architecture in wheels and at Debian, which are those of OCI."""

    machine: str
    debian: str

    @property
    def is_here(self) -> bool:
        return os.uname().machine == self.machine

    @property
    def emulator(self) -> str:
        """The program of Debian's qemu-user-static that runs commands of this architecture on others."""
        return f"qemu-{self.machine}-static"


ARCHITECTURES: Final = (Architecture("x86_64", "amd64"), Architecture("aarch64", "arm64"))


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if ran.returncode != 0:
        raise ImageError(f"{command[0]} ended with {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-2000:]}")
    return ran.stdout
