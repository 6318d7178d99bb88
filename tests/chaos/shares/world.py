"""A share that is written, its storage behind proxies, and the process that serves it."""

from __future__ import annotations

import random
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from chaos.shares.access import Access, MountAccess, NfsAccess
from chaos.shares.host import Host
from chaos.shares.tree import File, Scenario, Tree
from support.buckets import MIB
from support.file_systems import small
from support.gateways import missing_libnfs, written_share
from support.mounts import Mount, missing_fuse
from support.processes import seqferry
from support.proxy import Proxy
from support.relay import Relay
from support.rewriting import Reply, rewriting
from support.run import MissingToolError, Run
from support.servers import Kind, S3Server, free_ports
from support.servers import start as start_server

PREFIX: Final = "runs/"
_CHECKSUM: Final = re.compile(rb"<(Checksum[A-Za-z0-9]*)>[^<]*</\1>")


def _without_checksums(reply: Reply) -> None:
    """As of a service that keeps none for objects. Those of parts stay: the server asks for them at the end."""
    if "partNumber=" in reply.target or (reply.method == "GET" and "uploadId=" in reply.target):
        return
    for name in [name for name in reply.headers if name.startswith("x-amz-checksum-")]:
        del reply.headers[name]
    if b"<CompleteMultipartUploadResult" in reply.body or b"<CopyObjectResult" in reply.body:
        reply.body = _CHECKSUM.sub(b"", reply.body)


class ShareWorld:
    """All of it. A context manager.

    Raises:
        support.file_systems.NoFileSystemError, support.run.MissingToolError: this machine cannot run the scenario.
    """

    def __init__(self, run_: Run, log: Path, seed: int, scenario: Scenario, *, kind: Kind, has_checksums: bool) -> None:
        self._run = run_
        self._log = log
        self._rng = random.Random(seed)
        self._scenario = scenario
        self._kind: Kind = kind
        self._has_checksums = has_checksums
        self._held = ExitStack()

    def __enter__(self) -> Self:
        lacking = missing_fuse() if self._scenario.is_mount else missing_libnfs()
        if lacking is not None:
            raise MissingToolError(lacking)
        with self._held:
            hold = self._held.enter_context
            folder = self._run.new_folder("share")
            self.server: S3Server = start_server(self._run, self._kind)
            shown = self.server
            if not self._has_checksums:
                shown = hold(rewriting(self.server, _without_checksums)).server
            self.proxy = hold(Proxy(shown))
            self.storage_relay = hold(Relay(int(self.proxy.endpoint_url.rpartition(":")[2])))
            self.is_versioned = self._rng.random() < 0.5
            self.bucket = self.server.create_bucket(versioned=self.is_versioned)
            self._held.callback(self.server.delete_bucket, self.bucket)
            self.trees = self._make_trees()
            cache = folder / "cache"
            if self._scenario.cache_disk is not None:
                (folder / "disk").mkdir()
                cache = hold(small(folder / "disk", self._scenario.cache_disk)) / "cache"
            endpoint = f"http://127.0.0.1:{self.storage_relay.port}"
            self.environment = {
                **replace(self.server, endpoint_url=endpoint).environment(),
                "SEQFERRY_CONFIG": str(folder / "gateway.toml"),
                "SEQFERRY_STATE_DIR": str(folder / "state"),
                "XDG_CONFIG_HOME": str(folder / "config"),
            }
            self.host = hold(self._host(folder, cache))
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def shows_empty_folders(self) -> bool:
        """True for a bucket that lists a folder as a common prefix when its last object was removed.

        SeaweedFS does so without versions, versitygw with versions.
        """
        return self.is_versioned == (self._kind == "versitygw")

    def access(self) -> Access:
        """A way of its own into the share."""
        return MountAccess(self._place) if self._scenario.is_mount else NfsAccess(self._url)

    def _host(self, folder: Path, cache: Path) -> Host:
        source = f"s3://{self.bucket}/{PREFIX}"
        if self._scenario.is_mount:
            self._place = folder / "mnt"
            self._place.mkdir()
            mount = Mount(self._place, self.environment)
            options = ["--foreground", "--read-write", "--settle", "1", "--cache", cache]
            (folder / "gateway.toml").write_text("")
            return Host(
                [seqferry(), "mount", source, self._place, *options], self.environment, cache, self._log, mount=mount
            )
        [port] = free_ports(1)
        (folder / "gateway.toml").write_text(written_share("runs", source, "settle = 1"))
        self._url = f"nfs://127.0.0.1/runs?nfsport={port}&mountport={port}&version=3&uid=1000&gid=1000"
        return Host(
            [seqferry(), "gateway", "serve", "--port", str(port), "--cache", cache], self.environment, cache, self._log
        )

    def _make_trees(self) -> list[Tree]:
        """One for each client, and one for all where there are several. Other programs have put files into each."""
        scenario = self._scenario
        count = scenario.clients
        tops = [f"client{number}/" for number in range(count)] + ["all/"] if count > 1 else [""]
        made = [Tree(top, scenario, random.Random(self._rng.getrandbits(64))) for top in tops]
        for tree in made:
            tree.has_names_again = not self.shows_empty_folders
            sizes = (0, 77, 70_000, min(9 * MIB, scenario.largest))
            folder = f"{tree.top}d0/" if scenario.has_folders else tree.top
            if scenario.has_folders:
                tree.folders.add(folder.rstrip("/"))
            for number, size in enumerate(sizes):
                path, body = f"{folder}f{number:02d}", self._rng.randbytes(size)
                self.server.client().put_object(Bucket=self.bucket, Key=PREFIX + path, Body=body)
                tree.files[path] = File(body)
        return made
