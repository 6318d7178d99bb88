"""nfs-ganesha on loopback, with the export of docs/use/nfs4.md."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path
from typing import Final

from support import guest
from support.waiting import eventually

PAGE: Final = Path(__file__).parents[2] / "docs" / "use" / "nfs4.md"

_CORE: Final = "NFS_Port = {port}; Bind_addr = 127.0.0.1; Plugins_Dir = {plugins};"
_STATE: Final = """Lease_Lifetime = 5; Grace_Period = 8; RecoveryBackend = fs; RecoveryRoot = {folder};
UseGetpwnam = true;"""
"""What the test adds to blocks of the page: of two blocks the last counts."""


class Ganesha:
    """A server with the export of the page, over a folder."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        (export,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
        core = _CORE.format(port=self.port, plugins=guest.unpacked("libfsalvfs.so", "ganesha").parent)
        state = _STATE.format(folder=folder / "recovery")
        config = export.replace("/srv/runs", str(shared))
        config = config.replace("NFS_CORE_PARAM {", f"NFS_CORE_PARAM {{ {core}").replace("NFSv4 {", f"NFSv4 {{ {state}")
        (folder / "ganesha.conf").write_text(config, encoding="utf-8")
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        program = guest.unpacked("ganesha.nfsd")
        own = guest.unpacked("libganesha_nfsd.so", "ganesha").parent
        files = [
            f"-{option}{self._folder / name}"
            for option, name in zip("fLp", ("ganesha.conf", "log", "pid"), strict=True)
        ]
        process = subprocess.Popen(
            [program, "-F", *files],
            env={"LD_LIBRARY_PATH": f"{guest.library_path()}:{own}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        eventually(lambda: self._answers(process), what=f"nfs-ganesha to listen ({self._folder / 'log'})")
        return process

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self._folder / "log").read_text(encoding="utf-8", errors="replace")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def restart(self) -> None:
        """Kill it, have the kernel forget its files, and start it again: it finds them by their numbers alone."""
        self.close()
        Path("/proc/sys/vm/drop_caches").write_text("2", encoding="ascii")
        self._process = self._started()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
