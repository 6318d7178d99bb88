"""A virtual machine with the NFS client of a real kernel: emulated, without root, without modules of this machine."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.processes import RunningProcess
from support.run import TOOLS

_FOLDER: Final = TOOLS.parent / "guest"
_BUSYBOX: Final = Path("/bin/busybox")
_QEMU: Final = "qemu-system-x86_64"

_INIT: Final = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
export PATH=/bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
for module in $(cat /modules/modules.list); do insmod /modules/$module; done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
options=nolock,hard,vers=3,tcp,port={port},mountport={port}
options=$options,addr=10.0.2.2,mountaddr=10.0.2.2,mountproto=tcp
mount -i -t nfs -o $options 10.0.2.2:{export} /mnt || {{ echo GUEST cannot mount; poweroff -f; }}
# A line of its own, behind what the firmware has left on the console.
echo
echo GUEST mounted
cd /mnt
{script}
cd /
umount /mnt && echo GUEST unmounted
echo GUEST done
poweroff -f
"""


def missing() -> str | None:
    """What this machine lacks for the guest; None for nothing."""
    lacking = [name for name in (_QEMU, "cpio") if shutil.which(name) is None]
    if lacking or not _BUSYBOX.is_file():
        packages = "qemu-system-x86 busybox-static cpio kmod"
        return f"the kernel's NFS client is not tested: no virtual machine (Debian: apt-get install {packages})"
    if not (_FOLDER / "modules.list").is_file():
        return "the kernel's NFS client is not tested: there is no kernel for a guest (run tools/guest_kernel)"
    return None


def _libraries(program: Path) -> list[Path]:
    """Libraries that a program loads, and its loader."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(word) for line in said.splitlines() for word in line.split() if word.startswith("/")]


def booted(
    folder: Path, port: int, export: str, script: str, *, programs: Sequence[Path] = (), files: Sequence[Path] = ()
) -> RunningProcess:
    """A guest that mounts an export of this machine at /mnt and runs a script of busybox there; its console is stdout.

    Its 10.0.2.2 is the loopback address of this machine.

    Args:
        programs: programs of this machine that the script calls by name.
        files: files that it finds in /.
    """
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(_BUSYBOX, root / "bin/busybox")
    for program in programs:
        shutil.copy(program, root / "bin")
        for library in _libraries(program):
            target = root / library.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    for file in files:
        shutil.copy(file, root)
    shutil.copytree(_FOLDER / "modules", root / "modules")
    shutil.copy(_FOLDER / "modules.list", root / "modules")
    init = root / "init"
    init.write_text(_INIT.format(port=port, export=export, script=script), encoding="utf-8")
    init.chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc"],
        input=f".\n{names}\n".encode(),
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout
    initrd = folder / "initrd.img"
    initrd.write_bytes(gzip.compress(archive, 1))
    return RunningProcess(
        [
            _QEMU, "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1", "-nographic", "-no-reboot",
            "-kernel", _FOLDER / "vmlinuz", "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1",
            "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=",
        ]
    )  # fmt: skip
