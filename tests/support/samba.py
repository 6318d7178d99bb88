"""Samba on loopback, with the share of docs/use/smb.md, and a client of it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from support.waiting import eventually

PAGE: Final = Path(__file__).parents[2] / "docs" / "use" / "smb.md"

_GLOBAL: Final = """[global]
   server role = standalone server
   map to guest = Bad User
   interfaces = lo
   bind interfaces only = yes
   disable netbios = yes
   smb ports = {port}
   {folders}
   load printers = no
   printing = bsd
   printcap name = /dev/null
"""
_FOLDERS: Final = (
    "private dir",
    "lock directory",
    "state directory",
    "cache directory",
    "pid directory",
    "ncalrpc dir",
)


def missing_samba() -> str | None:
    """What this machine lacks; None for nothing."""
    programs = shutil.which("smbd", path="/usr/sbin:/usr/bin:/usr/local/sbin") and shutil.which("smbclient")
    if programs and any(Path("/usr").glob("lib*/**/samba/vfs/glusterfs_fuse.so")):
        return None
    packages = "samba smbclient samba-vfs-modules"
    return f"smbd, smbclient and glusterfs_fuse are not all installed: Samba is not tested (Debian: {packages})"


def missing_smbtorture() -> str | None:
    """What this machine lacks for the suite of Samba; None for nothing."""
    if shutil.which("smbtorture"):
        return None
    return "smbtorture is not installed: Samba's suite is not run (Debian: apt-get install samba-testsuite)"


_FAILURE: Final = re.compile(r"^(?:failure|error): (.+) \[$", flags=re.MULTILINE)


class Samba:
    """A server with the share of the page, for guests, over a folder."""

    def __init__(self, shared: Path, user: str) -> None:
        # Short: it holds sockets, whose paths have 107 bytes at most.
        self._folder = folder = Path(tempfile.mkdtemp(prefix="smb"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        lines = [f"{name} = {folder / name.replace(' ', '-')}" for name in _FOLDERS]
        for line in lines:
            Path(line.partition(" = ")[2]).mkdir()
        (share,) = re.findall(r"```ini\n(\[runs\].*?)```", PAGE.read_text(), flags=re.DOTALL)
        share = share.replace("/srv/runs", str(shared)).replace("force user = seqferry", f"force user = {user}")
        config = folder / "smb.conf"
        lines += [f"log file = {folder / 'log'}", f"passdb backend = tdbsam:{folder / 'passdb.tdb'}"]
        config.write_text(_GLOBAL.format(port=self._port, folders="\n   ".join(lines)) + share + "   guest ok = yes\n")
        smbd = shutil.which("smbd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        assert smbd is not None
        command = [smbd, "--foreground", "--no-process-group", f"--configfile={config}", "--debug-stdout"]
        with (folder / "smbd.out").open("wb") as out:
            # It ends when its standard input does, and so with the tests.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
            )
        eventually(self._answers, what=f"smbd to listen ({folder / 'smbd.out'})")

    def _answers(self) -> bool:
        assert self._process.poll() is None
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True

    def client(self, *commands: str) -> subprocess.CompletedProcess[str]:
        """What ``smbclient`` says to commands in one session."""
        arguments = [
            "smbclient",
            "//127.0.0.1/runs",
            "-p",
            str(self._port),
            "-N",
            "-t",
            "60",
            "-c",
            "; ".join(commands),
        ]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=120)

    def torture(self, suite: str) -> set[str]:
        """The cases of a suite of ``smbtorture`` that fail, as ``suite.case``.

        Raises:
            AssertionError: the suite did not run.
        """
        arguments = ["smbtorture", "//127.0.0.1/runs", "-p", str(self._port), "-U%", "--target=samba3"]
        command = [*arguments, "--option=torture:progress=no", suite]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
        failed = {f"{suite}.{case}" for case in _FAILURE.findall(done.stdout)}
        assert failed or (done.returncode == 0 and "success: " in done.stdout), done.stdout + done.stderr
        return failed

    def close(self) -> None:
        self._process.terminate()
        deadline = time.monotonic() + 20
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)
