"""Starts an unpacked image without a container engine: the command, and a server that answers.

An image of another architecture is started by qemu, where that is installed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from image_parts import STATE, USER, Architecture, ImageError, run

EMULATOR: Final = "/tmp/emulator"
"""Place in the file system of the image, whose /tmp is empty."""

# The command is named as the kernel would start it: an emulator does not start what it executes.
SERVES: Final = """
import subprocess, sys, urllib.request

server = subprocess.Popen([*sys.argv[1:], "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
url = server.stdout.readline().strip()
for path in ("/healthz", "/readyz"):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        assert answer.status == 200, path
server.terminate()
assert server.wait(120) == 0
print("serves")
"""


def start(layout: Path, version: str, emulator: str | None, *words: str) -> str:
    """Output of a command in an unpacked image: read-only, as its user, without a network.

    Args:
        emulator: program of this machine that runs the commands of the image; ``None`` if the processor does.
    """
    bundle = layout.parent / "bundle"
    if not bundle.exists():
        run("umoci", "unpack", "--image", f"{layout}:{version}", bundle)
    return run(
        "bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--ro-bind", bundle / "rootfs", "/",
        "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", f"/{STATE}",
        *(("--ro-bind", emulator, EMULATOR) if emulator else ()),
        "--uid", str(USER), "--gid", str(USER), "--chdir", f"/{STATE}",
        *(word for pair in (
            ("SEQFERRY_STATE_DIR", f"/{STATE}"), ("HOME", f"/{STATE}"), ("LANG", "C.UTF-8"), ("PATH", "/usr/local/bin"),
        ) for word in ("--setenv", *pair)),
        *((EMULATOR,) if emulator else ()), *words,
    )  # fmt: skip


def try_image(layout: Path, version: str, emulator: str | None = None) -> None:
    """Start the image: the command, and a server that answers.

    Raises:
        ImageError: it does not.
    """
    command = ("/usr/bin/python3", "/usr/local/bin/seqferry") if emulator else ("/usr/local/bin/seqferry",)
    said = start(layout, version, emulator, *command, "--version")
    if version not in said:
        raise ImageError(f"The image says it is {said.strip()}, not {version}.")
    served = (EMULATOR, *command) if emulator else command
    if start(layout, version, emulator, "/usr/bin/python3", "-c", SERVES, *served).strip() != "serves":
        raise ImageError("The server in the image does not answer.")


def try_where_possible(architecture: Architecture, layout: Path, version: str) -> str:
    """Start the image on this machine or by qemu.

    Returns:
        What was done, or why nothing was.

    Raises:
        ImageError: the image does not start.
    """
    emulator = None if architecture.is_here else shutil.which(architecture.emulator)
    if emulator is None and not architecture.is_here:
        return (
            f"not started: {architecture.debian}; this machine is {os.uname().machine}, "
            f"and {architecture.emulator} is not here (Debian: qemu-user-static)"
        )
    try_image(layout, version, emulator)
    by = f", by {architecture.emulator}" if emulator else ""
    return f"started from the image for {architecture.debian}{by}: the command, and a server that answers"
