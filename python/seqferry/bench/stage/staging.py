"""A method to stage data: its command, the bytes that it leaves on the local disk, and its number of requests."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from seqferry.bench.stage.data import Dataset
from seqferry.cost import requests
from seqferry.model.frozen import frozen

Delivery = Literal["files", "archive", "in place", "task"]

ARCHIVE: Final = "data.tar"


@frozen
class Staging:
    """Inputs of one run: the data, its archive, and the folders of the run."""

    data: str
    """``s3://bucket/prefix/`` of the files."""
    archive_folder: str
    """The same of the archive, whose name is ``ARCHIVE``."""
    arrived: Path
    mount: Path
    names: Path
    """A file with the names that are read in place, each ended by a zero byte."""
    endpoint_url: str | None
    region: str
    commands: dict[str, str]
    """Programs by name, quoted for a shell."""
    plugins: Path
    """A folder of plugins for Nextflow, with ours in it."""

    def aws(self, *words: str) -> str:
        endpoint = ("--endpoint-url", self.endpoint_url) if self.endpoint_url else ()
        return f"{self.commands['aws']} {shlex.join(['s3', 'cp', *words, '--only-show-errors', *endpoint])}"

    def s5cmd(self, *words: str) -> str:
        endpoint = ("--endpoint-url", self.endpoint_url) if self.endpoint_url else ()
        return f"{self.commands['s5cmd']} {shlex.join([*endpoint, '--log', 'error', 'cp', *words])}"

    def own(self, verb: str, *words: str) -> str:
        endpoint = ("--endpoint-url", self.endpoint_url) if self.endpoint_url else ()
        return f"{self.commands['seqferry']} {shlex.join([verb, *words, '--region', self.region, *endpoint])}"

    def mount_and_run(self, uri: str, work: str) -> str:
        """Mounts, works, and unmounts also when the work fails."""
        unmount = f"{self.commands['seqferry']} umount {shlex.quote(str(self.mount))}"
        mount = self.own("mount", uri, str(self.mount), "--read-only")
        return f"{mount} && {{ {work}; status=$?; {unmount} && exit $status; }}"


def _nothing(_each: Staging) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class StagingMethod:
    """A method to bring the data to a task.

    Attributes:
        what: its name for users.
        delivers: all files in a folder, the archive as it is, a part of the files read in place, or all files to the
            task of a pipeline.
        files: written to the folder of the run before, by name; those that begin with ``#!`` are executable.
        environment: variables of the run, beside the common ones.
        tools: programs that it needs besides those of every system.
        with_archive: it needs one tar of the data in S3; ``with_mount``: it needs FUSE; ``with_plugin``: it needs
            nf-seqferry; ``keeps_archive``: the tar stays beside its files.
    """

    name: str
    what: str
    delivers: Delivery
    script: Callable[[Staging], str]
    tools: tuple[str, ...]
    with_archive: bool = False
    with_mount: bool = False
    with_plugin: bool = False
    keeps_archive: bool = False
    files: Callable[[Staging], dict[str, str]] = _nothing
    environment: Callable[[Staging], dict[str, str]] = _nothing

    def requests(self, data: Dataset, archive_bytes: int, read: Sequence[str]) -> int:
        """Requests to S3, computed from the sizes."""
        if self.with_archive:
            return 1 + requests.count_parts(archive_bytes, inside=False)
        if self.with_mount:
            return data.requests_of_mount(read if self.delivers == "in place" else data.files)
        return data.requests_of_files()

    def local_bytes(self, data: Dataset, archive_bytes: int) -> int:
        """Bytes on the local disk when it has ended."""
        kept = archive_bytes if self.keeps_archive else 0
        return kept + {"files": data.total, "archive": archive_bytes, "in place": 0, "task": data.total}[self.delivers]
