"""A versitygw of one test, which is stopped and started again on its port with its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from support.buckets import PROBES, bodies, is_file
from support.processes import RunningProcess
from support.run import find_tool
from support.servers import MOVER, REGION, S3Server, free_ports
from support.waiting import eventually


class OwnServer:
    """The server, started. ``mover`` is its root, so that buckets need no policy."""

    def __init__(self, folder: Path) -> None:
        [self._port] = free_ports(1)
        self._folder: Final = folder / "own-server"
        for name in ("iam", "data", "versions", "sidecar"):
            (self._folder / name).mkdir(parents=True)
        self.server: Final = S3Server("versitygw", f"http://127.0.0.1:{self._port}")
        self._process: RunningProcess | None = None
        self.start()

    def start(self) -> None:
        binary = find_tool("versitygw", variable="SEQFERRY_VERSITYGW", hint="run `make tools` (needs Go)")
        command: list[str | Path] = [
            binary,
            *("--port", f"127.0.0.1:{self._port}", "--iam-dir", self._folder / "iam", "--quiet", "--keep-alive"),
            *("posix", "--versioning-dir", self._folder / "versions"),
            *("--sidecar", self._folder / "sidecar", self._folder / "data"),
        ]
        root = {"ROOT_ACCESS_KEY": MOVER.access_key, "ROOT_SECRET_KEY": MOVER.secret_key, "AWS_REGION": REGION}
        self._process = RunningProcess(command, environment=root)
        client = self.server.client(MOVER, retries={"total_max_attempts": 1})
        try:
            quiet = (BotoCoreError, ClientError)
            eventually(lambda: client.list_buckets() is not None, what="the server", deadline=60, quiet=quiet)
        finally:
            client.close()

    def stop(self) -> None:
        """Ends the server by SIGKILL. Connections to its port are refused from then on."""
        if self._process is not None:
            self._process.__exit__()
            self._process = None

    def objects(self, bucket: str) -> dict[str, bytes]:
        """The files of shares in a bucket."""
        return bodies(self.server, bucket, credentials=MOVER)

    def versions(self, bucket: str) -> list[str]:
        """Keys of all versions of the files of shares in a bucket, in order."""
        pages = self.server.client(MOVER).get_paginator("list_object_versions").paginate(Bucket=bucket)
        # versitygw 1.8.0 names the last version of a page on the next one as well.
        found = {(version["Key"], version["VersionId"]) for page in pages for version in page.get("Versions", [])}
        return sorted(key for key, _ in found if is_file(key) and not key.endswith(PROBES))
