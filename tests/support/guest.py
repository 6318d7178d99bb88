"""A virtual machine with the NFS client of a real kernel: emulated, without root, without modules of this machine."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from support.processes import RunningProcess
from support.run import TOOLS

_FOLDER: Final = TOOLS.parent / "guest"
_BUSYBOX: Final = Path("/bin/busybox")
_QEMU: Final = "qemu-system-x86_64"
_MKFS: Final = Path("/sbin/mke2fs")
_KERNEL: Final = "console=ttyS0 no_timer_check"
"""Without the check of its timer, which an emulated machine fails now and then on a machine that is busy."""

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
{mount} || {{ echo GUEST cannot mount; poweroff -f; }}
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

_MOUNT: Final = """mount -i -t nfs -o nolock,hard,vers=3,tcp,port={port},mountport={port},\\
addr=10.0.2.2,mountaddr=10.0.2.2,mountproto=tcp 10.0.2.2:{export} /mnt"""
"""The mount of busybox, which has no program for NFS and asks no port mapper."""


_DEBIAN_INIT: Final = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /mnt
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
export PATH=/bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules/modules.list); do insmod /modules/$module; done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
mount -t ext4 /dev/vda /mnt
cp -a /files/. /mnt/
exec switch_root /mnt /sbin/init
"""

_SCENARIO: Final = """[Unit]
Description=What the test does here

[Service]
ExecStart=/scenario
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS0
"""
_WANTED: Final = "etc/systemd/system/multi-user.target.wants/scenario.service"


def missing() -> str | None:
    """What this machine lacks for the guest; None for nothing."""
    lacking = [name for name in (_QEMU, "cpio") if shutil.which(name) is None]
    if lacking or not _BUSYBOX.is_file():
        packages = "qemu-system-x86 busybox-static cpio kmod"
        return f"the kernel's NFS client is not tested: no virtual machine (Debian: apt-get install {packages})"
    if not (_FOLDER / "root").is_dir():
        return "the kernel's NFS client is not tested: there is no kernel for a guest (run tools/guest_kernel)"
    return None


def unpacked(name: str, folder: str = "*bin") -> Path:
    """A program of Debian that is not installed here. Its libraries are in ``library_path``."""
    return next((_FOLDER / "root").glob(f"**/{folder}/{name}"))


def library_path() -> str:
    """Folders of the libraries of unpacked programs, as of LD_LIBRARY_PATH."""
    return ":".join(str(folder) for folder in (_FOLDER / "root").glob("**/lib/*-linux-gnu"))


def _libraries(program: Path) -> list[Path]:
    """Libraries that a program loads, and its loader."""
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path()}
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=environment).stdout
    return [Path(word) for line in said.splitlines() for word in line.split() if word.startswith("/")]


def booted(
    folder: Path,
    port: int,
    export: str,
    script: str,
    *,
    programs: Sequence[Path] = (),
    files: Sequence[Path] = (),
    mount: str = _MOUNT,
    nfs4: bool = False,
    within: Sequence[str] = (),
) -> RunningProcess:
    """A guest that mounts an export of this machine at /mnt and runs a script of busybox there; its console is stdout.

    Its 10.0.2.2 is the loopback address of this machine.

    Args:
        programs: programs of this machine, or unpacked ones, that the script calls by name.
        files: files that it finds in /.
        mount: the command that mounts.
        nfs4: the kernel has version 4 of NFS as well.
        within: what runs the machine, as ``ip netns exec NAME``.
    """
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    (root / "sbin").symlink_to("bin")
    (root / "etc").mkdir()
    shutil.copy(_FOLDER / "root/etc/netconfig", root / "etc")
    (root / "etc/protocols").write_text("tcp 6 TCP\nudp 17 UDP\n", encoding="utf-8")
    shutil.copy(_BUSYBOX, root / "bin/busybox")
    for program in programs:
        shutil.copy(program, root / "bin")
        for library in _libraries(program):
            at = _FOLDER / "root" if library.is_relative_to(_FOLDER / "root") else Path("/")
            target = root / library.relative_to(at)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    for file in files:
        shutil.copy(file, root)
    shutil.copytree(_FOLDER / "modules", root / "modules")
    lists = ["modules.list", *(["nfsv4.list"] if nfs4 else [])]
    loaded = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in lists)
    (root / "modules/modules.list").write_text(loaded, encoding="utf-8")
    mounted = mount.format(port=port, export=export)
    initrd = _initrd(folder, _INIT.format(mount=mounted, script=script))
    return _machine(initrd, f"{_KERNEL} quiet panic=-1", "-m", "512", "-smp", "1", within=within)


def missing_debian() -> str | None:
    """What this machine lacks for a guest that is a whole Debian; None for nothing."""
    if not (_FOLDER / "debian").is_dir() or not (_FOLDER / "disk.list").is_file():
        return "machines are not set up: there is no Debian for a guest (run make guest-debian)"
    return missing()


def booted_debian(folder: Path, files: Mapping[str, str], scenario: str) -> RunningProcess:
    """A guest with Debian's systemd, a second disk that is empty, and no network but this machine's loopback, as above.

    Args:
        files: contents by their paths; scripts are marked by their first line.
        scenario: a script that root runs once systemd is up; the console is its output.
    """
    root = folder / "root"
    for name, text in {
        **files, "scenario": scenario, "etc/systemd/system/scenario.service": _SCENARIO,
    }.items():  # fmt: skip
        file = root / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    wanted = root / "files" / _WANTED
    wanted.parent.mkdir(parents=True)
    wanted.symlink_to("/etc/systemd/system/scenario.service")
    for unit in ("serial-getty@ttyS0.service", "apt-daily.timer", "apt-daily-upgrade.timer"):
        (root / "files/etc/systemd/system" / unit).symlink_to(os.devnull)
    (root / "bin").mkdir()
    (root / "sbin").symlink_to("bin")
    shutil.copy(_BUSYBOX, root / "bin/busybox")
    shutil.copytree(_FOLDER / "modules", root / "modules")
    shutil.copy(_FOLDER / "disk.list", root / "modules/modules.list")
    disks: list[str] = []
    for name, size in (("system.img", "4G"), ("second.img", "2G")):
        image = folder / name
        subprocess.run(["truncate", "--size", size, image], check=True)
        disks += ["-drive", f"file={image},format=raw,if=virtio,cache=unsafe"]
    make = [_MKFS, "-q", "-t", "ext4", "-d", _FOLDER / "debian", folder / "system.img"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    kernel = f"{_KERNEL} quiet panic=-1 net.ifnames=0 systemd.show_status=0"
    return _machine(_initrd(folder, _DEBIAN_INIT), kernel, "-m", "1536", "-smp", "2", *disks)


def _initrd(folder: Path, first: str) -> Path:
    """The archive of ``root`` in this folder, with a script as its first process."""
    root = folder / "root"
    init = root / "init"
    init.write_text(first, encoding="utf-8")
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
    return initrd


def _machine(initrd: Path, kernel: str, *options: str, within: Sequence[str] = ()) -> RunningProcess:
    return RunningProcess(
        [
            *within, _QEMU, "-accel", "tcg", "-cpu", "max", *options, "-nographic", "-no-reboot",
            "-kernel", _FOLDER / "vmlinuz", "-initrd", initrd, "-append", kernel,
            "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=",
        ]
    )  # fmt: skip
