"""A share over NFS in front of a bucket, side by side: Seqferry and ``rclone serve nfs``, on the same versitygw.

``make bench-gateway`` has one client of libnfs, with one call at a time, list a folder of 10,000 objects, write 512 MiB
and sync it, read it again, write and sync pieces of 1 MiB, and create 2,000 files of 10 KB, each synced. rclone keeps
what is written in a folder as well (``--vfs-cache-mode full``) and is else as by default. After the measured time the
bench waits until the bucket has what was written, and compares it there by another client. The listing goes through a
proxy, which counts its requests. Folders are also listed on a simulator whose replies take 20 ms: the client gets mode
and time of each name, which a listing of S3 does not have.

A sync of Seqferry's share returns when the bytes and the name are on the disk. rclone does not sync its files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import harness
import share_client
from figures import Figure, PreferredDirection, Result
from harness import tool
from seqferry.bench import measure
from seqferry.bench.methods import base_environment, version_of
from seqferry.bench.rounds import rotated
from support import servers
from support.gateways import missing_libnfs, written_share
from support.proxy import Proxy
from support.run import MissingToolError
from support.servers import S3Server
from support.sim import Simulator

MIB = 1 << 20
SHARE = "runs"
READY_WITHIN = 60.0
IN_THE_BUCKET_WITHIN = 300.0


@dataclass(frozen=True)
class Sizes:
    big: int
    """Bytes of the file that is written and read."""
    synced: int
    """Pieces of 1 MiB that are synced."""
    small: int
    """Files of 10 KB."""
    listed: int
    """Objects of the folder that is listed."""
    distant: tuple[int, ...]
    """Objects of folders that are listed from a distance. rclone lists the first: it sends one HEAD after the other."""


FULL = Sizes(big=512 * MIB, synced=100, small=2000, listed=10_000, distant=(1000, 10_000))
QUICK = Sizes(big=4 * MIB, synced=3, small=10, listed=50, distant=(20,))


@dataclass(frozen=True)
class Served:
    """A share that a program serves now."""

    url: str
    pid: int
    settle: Callable[[], None]
    """Have all that was written uploaded soon."""

    def ask(self, work: str, name: str, count: int = 0, size: int = 0) -> dict[str, Any]:
        """What the client of libnfs measured.

        Raises:
            RuntimeError: it failed.
        """
        client = [sys.executable, "-I", share_client.__file__, self.url, work, name, str(count), str(size)]
        done = subprocess.run(client, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{work} of {name}: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)


@dataclass(frozen=True)
class Program:
    name: str
    version: Callable[[], str]
    serve: Callable[[S3Server | Simulator, str, Path, bool], Any]
    """A block in which the program serves a prefix of a bucket, to be written or not; it keeps what it needs in the
    folder."""


@dataclass
class Bench:
    sizes: Sizes
    server: S3Server
    bucket: str
    scratch: Path
    figures: dict[tuple[str, str], Figure] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, group: str, name: str, unit: str, better: PreferredDirection, series: str, value: float) -> None:
        figure = self.figures.setdefault((group, name), Figure(group, name, unit, better, {}, baseline="seqferry"))
        figure.series.setdefault(series, []).append(value)


# --- the programs -----------------------------------------------------------------------------------------------------


@contextmanager
def _process(command: list[str], environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _await_served(process: subprocess.Popen[bytes], folder: Path, mark: str) -> str:
    """The line that says that the share is served."""
    deadline = time.monotonic() + READY_WITHIN
    while True:
        said = (folder / "output").read_text(errors="replace")
        if (line := next((line for line in said.splitlines() if mark in line), None)) is not None:
            return line
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not serve: {said.strip()[-500:] or 'it said nothing'}")
        time.sleep(0.02)


def _url(port: str, path: str, more: str = "") -> str:
    return f"nfs://127.0.0.1/{path}?nfsport={port}&mountport={port}&version=3&uid=0&gid=0{more}"


@contextmanager
def _seqferry(server: S3Server | Simulator, place: str, folder: Path, is_written: bool) -> Iterator[Served]:
    config, cache = folder / "gateway.toml", str(folder / "cache")
    read_only = f'[[share]]\nname = "{SHARE}"\nsource = "s3://{place}"\n'
    config.write_text(written_share(SHARE, f"s3://{place}") if is_written else read_only, encoding="utf-8")
    environment = {
        **base_environment(),
        **server.environment(),
        "SEQFERRY_CONFIG": str(config),
        "SEQFERRY_STATE_DIR": str(folder / "state"),
    }
    command = [tool("seqferry"), "gateway", "serve", "--port", "0", "--cache", cache]

    def settle() -> None:
        flush = [tool("seqferry"), "gateway", "flush", "--wait", "--cache", cache]
        subprocess.run(flush, env=environment, check=True, capture_output=True, timeout=IN_THE_BUCKET_WITHIN)

    with _process(command, environment, folder) as process:
        port = _await_served(process, folder, "is served at").rpartition("port ")[2].rstrip(".")
        yield Served(_url(port, SHARE), process.pid, settle)


@contextmanager
def _rclone(server: S3Server | Simulator, place: str, folder: Path, is_written: bool) -> Iterator[Served]:
    command = [
        *(tool("rclone"), "serve", "nfs", f"store:{place}", "--addr", "127.0.0.1:0", "--config", os.devnull),
        *("--vfs-cache-mode", "full", "--cache-dir", str(folder / "cache"), "--s3-no-check-bucket"),
        *(() if is_written else ("--read-only",)),
    ]
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": server.endpoint_url}
    environment = {
        **base_environment(),
        **server.environment(),
        **{f"RCLONE_CONFIG_STORE_{name}": value for name, value in settings.items()},
    }
    with _process(command, environment, folder) as process:
        port = _await_served(process, folder, "NFS Server running at").rpartition(":")[2].split()[0]
        # Else libnfs 4.0 cannot mount what go-nfs serves.
        yield Served(_url(port, "", "&auto-traverse-mounts=0"), process.pid, lambda: None)


PROGRAMS = (
    Program("seqferry", lambda: version_of([tool("seqferry"), "--version"]), _seqferry),
    Program("rclone", lambda: version_of([tool("rclone"), "version"]), _rclone),
)


# --- the work ---------------------------------------------------------------------------------------------------------


def _measure(bench: Bench, program: Program, number: int) -> None:
    """One round of one program, in a prefix and with folders of its own."""
    with tempfile.TemporaryDirectory(prefix=f"{program.name}-", dir=bench.scratch) as name:
        listing, writing = Path(name) / "listing", Path(name) / "writing"
        listing.mkdir()
        writing.mkdir()
        _list(bench, program, listing)
        _list_from_afar(bench, program, Path(name))
        prefix = f"{program.name}-{number}"
        with program.serve(bench.server, f"{bench.bucket}/{prefix}", writing, True) as served:
            expected = _write(bench, program, served)
            served.settle()
            _compare(bench, program, prefix, expected)


def _list(bench: Bench, program: Program, folder: Path) -> None:
    group = f"list of {bench.sizes.listed:,} objects"
    with Proxy(bench.server) as proxy, program.serve(proxy.server, f"{bench.bucket}/listed", folder, False) as served:
        proxy.clear_log()
        before = measure.usage(served.pid).cpu_s
        # A client of its own each time: libnfs keeps a listing.
        found = [served.ask("list", "folder") for _ in range(2)]
        cpu_s = measure.usage(served.pid).cpu_s - before
        log = proxy.log()
    for which, one in zip(("cold", "again"), found, strict=True):
        bench.add(group, which, "s", "lower", program.name, one["seconds"])
        if one["names"] != bench.sizes.listed:
            bench.errors.append(f"{program.name} lists {one['names']} of {bench.sizes.listed} objects")
    bench.add(group, "CPU of both", "s", "lower", program.name, cpu_s)
    bench.add(group, "listings", "", "lower", program.name, sum(one.operation.startswith("List") for one in log))
    bench.add(group, "HEADs", "", "lower", program.name, sum(one.operation == "HeadObject" for one in log))


def _list_from_afar(bench: Bench, program: Program, scratch: Path) -> None:
    for count in bench.sizes.distant if program.name == "seqferry" else bench.sizes.distant[:1]:
        group = f"list of {count:,} objects, S3 20 ms away"
        folder = scratch / str(count)
        folder.mkdir()
        objects = f"b=keys=listed/folder/{{i:05}};count={count};size=10000"
        distance = [word for kind in ("get", "list", "small") for word in ("--set", f"model.{kind}.base_seconds=0.02")]
        still = ("--instant", "--set", "model.small.jitter=0")
        with (
            Simulator(*still, *distance, "--bucket", objects) as simulator,
            program.serve(simulator, "b/listed", folder, False) as served,
        ):
            for which in ("cold", "again"):
                one = served.ask("list", "folder")
                bench.add(group, which, "s", "lower", program.name, one["seconds"])
                if one["names"] != count:
                    bench.errors.append(f"{program.name} lists {one['names']} of {count} distant objects")


def _write(bench: Bench, program: Program, served: Served) -> dict[str, str]:
    """Write, and read what was written. Returns the SHA-256 of each file by its name."""
    sizes = bench.sizes
    name = f"{sizes.big // MIB} MiB"

    def work(group: str, work: str, *arguments: Any) -> dict[str, Any]:
        before = measure.usage(served.pid).cpu_s
        measured = served.ask(work, *arguments)
        bench.add(group, "CPU", "s", "lower", program.name, measure.usage(served.pid).cpu_s - before)
        return measured

    expected = {"big": _sha256("big", -(-sizes.big // MIB), MIB)}
    seconds = work(f"{name} written and synced", "write", "big", 0, sizes.big)["seconds"]
    bench.add(f"{name} written and synced", "rate", "MB/s", "higher", program.name, sizes.big / seconds / 1e6)
    again = work(f"{name} read again", "read", "big", 0, sizes.big)
    bench.add(f"{name} read again", "rate", "MB/s", "higher", program.name, sizes.big / again["seconds"] / 1e6)
    if again["sha256"] != expected["big"]:
        bench.errors.append(f"{program.name} reads other bytes than were written")
    took = sorted(work("1 MiB written and synced", "sync", "synced", sizes.synced, MIB)["ms"])
    bench.add("1 MiB written and synced", "median", "ms", "lower", program.name, statistics.median(took))
    bench.add("1 MiB written and synced", "p95", "ms", "lower", program.name, took[int(0.95 * len(took))])
    expected["synced"] = _sha256("synced", sizes.synced, MIB)
    group = f"{sizes.small:,} files of 10 KB, each synced"
    seconds = work(group, "create", "small", sizes.small, 10_000)["seconds"]
    bench.add(group, "rate", "files/s", "higher", program.name, sizes.small / seconds)
    for number in range(sizes.small):
        small = f"small-{number:05d}"
        expected[small] = _sha256(small, 1, 10_000)
    bench.add("all of it", "peak memory", "MiB", "lower", program.name, measure.usage(served.pid).biggest_mib)
    return expected


def _sha256(name: str, pieces: int, size: int) -> str:
    digest = hashlib.sha256()
    for number in range(pieces):
        digest.update(share_client.piece(name, number, size))
    return digest.hexdigest()


def _compare(bench: Bench, program: Program, prefix: str, expected: dict[str, str]) -> None:
    """Wait until the bucket has each file, and compare it."""
    client = bench.server.client()
    pages = client.get_paginator("list_objects_v2")
    deadline = time.monotonic() + IN_THE_BUCKET_WITHIN
    missing = set(expected)
    while missing and time.monotonic() < deadline:
        listed = pages.paginate(Bucket=bench.bucket, Prefix=f"{prefix}/")
        keys = {one["Key"].removeprefix(f"{prefix}/") for page in listed for one in page.get("Contents", [])}
        missing = expected.keys() - keys
        if missing:
            time.sleep(1)

    def differs(name: str) -> bool:
        body = client.get_object(Bucket=bench.bucket, Key=f"{prefix}/{name}")["Body"]
        digest = hashlib.sha256()
        while part := body.read(MIB):
            digest.update(part)
        return digest.hexdigest() != expected[name]

    there = sorted(expected.keys() - missing)
    with ThreadPoolExecutor(4) as pool:
        wrong = [name for name, differ in zip(there, pool.map(differs, there), strict=True) if differ]
    if missing or wrong:
        text = f"{len(missing)} files are not in the bucket, {len(wrong)} differ ({', '.join(wrong[:3])})"
        bench.errors.append(f"{program.name}: {text}")


def _fill(bench: Bench) -> None:
    client = bench.server.client()

    def put(number: int) -> None:
        client.put_object(Bucket=bench.bucket, Key=f"listed/folder/{number:05d}.fastq.gz", Body=b"")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(bench.sizes.listed)))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if (missing := missing_libnfs()) is not None:
        raise MissingToolError(missing)
    programs = [program for program in PROGRAMS if not options.only or program.name in options.only]
    # On a disk: a share that is written refuses a cache in memory.
    with harness.workspace(options.dir) as (run, scratch):
        server = servers.start(run, "versitygw")
        bench = Bench(QUICK if options.quick else FULL, server, server.create_bucket(), scratch)
        _fill(bench)
        for number in range(options.rounds):
            for program in rotated(programs, number + options.turn):
                try:
                    _measure(bench, program, number)
                except RuntimeError as why:
                    bench.errors.append(f"{program.name}: {why}")
    figures = list(bench.figures.values())
    harness.print_table(figures)
    result = Result("gateway", figures, errors=bench.errors)
    result.versions = {program.name: program.version() for program in programs}
    return harness.finish(options, result)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--dir", type=Path, help="a folder on the disk whose speed counts (default: that of temporary files)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows only that all of it works")
    harness.add_arguments(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    harness.run(main)
