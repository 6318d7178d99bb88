"""Making one tar of many objects, and unpacking one: Seqferry, and pipes of tar with the AWS CLI or s5cmd.

``make bench-tar`` packs 1,000 objects of 1 MiB from versitygw to versitygw, whose every reply a proxy holds back for
30 ms, and unpacks such an archive to a folder. All members are compared with what was stored, after the measured time.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from figures import Figure, Result  # noqa: E402
from support import servers  # noqa: E402
from support.processes import seqferry  # noqa: E402
from support.proxy import Proxy, delay  # noqa: E402
from support.run import Run  # noqa: E402

PACK = "seqferry pack"
UNPACK = "seqferry unpack, index"
UNPACK_PLAIN = "seqferry unpack, no index"
_PACKS = {
    "AWS CLI, tar": '"$TOOL" s3 cp --only-show-errors --recursive "$IN" "$DIR" && '
    'tar -cf - -C "$DIR" . | "$TOOL" s3 cp --only-show-errors - "$OUT"',
    "s5cmd, tar": '"$TOOL" cp "$IN*" "$DIR/" && tar -cf - -C "$DIR" . | "$TOOL" pipe "$OUT"',
}
_UNPACKS = {
    "AWS CLI, tar -x": '"$TOOL" s3 cp --only-show-errors "$IN" - | tar -xf - -C "$DIR"',
    "s5cmd cat, tar -x": '"$TOOL" cat "$IN" | tar -xf - -C "$DIR"',
}
_ARCHIVE = "in.tar"


def main(arguments: Sequence[str] | None = None) -> int:
    return harness.of_many_objects(__doc__, "object", (1000, 1 << 20), _measure, arguments)


class _Bench:
    """The methods over one server, each timed and its result compared with what was stored."""

    def __init__(self, server: servers.S3Server, proxy: Proxy, scratch: Path, options: argparse.Namespace) -> None:
        self.server, self.proxy, self.scratch = server, proxy, scratch
        self.bucket = server.create_bucket()
        self.content = harness.fill(server, self.bucket, options)
        self.environment = {
            **os.environ,
            **proxy.server.environment(),
            "S3_ENDPOINT_URL": proxy.endpoint_url,
            "SEQFERRY_STATE_DIR": str(scratch / "state"),
        }
        self.made = 0

    def timed(self, command: Sequence[str | Path], **more: str) -> float:
        environment = {**self.environment, **more}
        began = time.monotonic()
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=900)
        return time.monotonic() - began

    def pack(self, script: str | None, tool: str) -> float:
        self.made += 1
        key, folder = f"out/{self.made}.tar", Path(tempfile.mkdtemp(dir=self.scratch))
        source, target = f"s3://{self.bucket}/in/", f"s3://{self.bucket}/{key}"
        if script is None:
            took = self.timed([seqferry(), "pack", source, target, "--quiet"])
        else:
            took = self.timed(_bash(script), TOOL=harness.tool(tool), IN=source, OUT=target, DIR=str(folder))
        shutil.rmtree(folder)
        archive = self.server.client().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        self.compare(_members(archive))
        return took

    def unpack(self, script: str | None, tool: str, *options: str) -> float:
        folder, source = Path(tempfile.mkdtemp(dir=self.scratch)), f"s3://{self.bucket}/{_ARCHIVE}"
        if script is None:
            took = self.timed([seqferry(), "unpack", source, folder, "--quiet", *options])
        else:
            took = self.timed(_bash(script), TOOL=harness.tool(tool), IN=source, DIR=str(folder))
        self.compare({path.name: path.read_bytes() for path in folder.iterdir()})
        shutil.rmtree(folder)
        return took

    def compare(self, found: dict[str, bytes]) -> None:
        if found != self.content:
            raise RuntimeError("the members are not what was stored")

    def methods(self) -> dict[str, dict[str, Callable[[], float]]]:
        """Methods by their work, and by name."""
        packs: dict[str, Callable[[], float]] = {PACK: lambda: self.pack(None, "")}
        unpacks: dict[str, Callable[[], float]] = {
            UNPACK: lambda: self.unpack(None, ""),
            UNPACK_PLAIN: lambda: self.unpack(None, "", "--no-index"),
        }
        for name, script in _PACKS.items():
            packs[name] = lambda script=script, name=name: self.pack(script, _tool(name))
        for name, script in _UNPACKS.items():
            unpacks[name] = lambda script=script, name=name: self.unpack(script, _tool(name))
        return {"time to the archive": packs, "time to the members in a folder": unpacks}


def _measure(options: argparse.Namespace, run: Run, scratch: Path) -> Result:
    server = servers.start(run, "versitygw")
    errors: list[str] = []
    figures: list[Figure] = []
    group = f"versitygw, {options.count} objects of {options.size} bytes, {options.delay} ms"
    with Proxy(server) as proxy:
        bench = _Bench(server, proxy, scratch, options)
        proxy.rule((), delay(reply_ms=options.delay))
        # What is unpacked: an archive with its index.
        bench.timed([seqferry(), "pack", f"s3://{bench.bucket}/in/", f"s3://{bench.bucket}/{_ARCHIVE}", "--quiet"])
        for what, methods in bench.methods().items():
            wanted = {name: methods[name] for name in methods if name.startswith("seqferry") or not options.ours}
            series, requests = harness.time_methods(wanted, proxy, options, errors)
            baseline = next(name for name in methods if name.startswith("AWS"))
            figures.append(Figure(group, what, "s", "lower", series, baseline=baseline))
            figures.append(Figure(group, f"requests: {what}", "", "lower", requests, baseline=baseline))
    harness.print_table(figures)
    return Result("tar", figures, left_out=[], errors=errors)


def _bash(script: str) -> list[str]:
    return ["bash", "-c", f"set -o pipefail; {script}"]


def _tool(name: str) -> str:
    return "aws" if name.startswith("AWS") else "s5cmd"


def _members(archive: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for member in opened:
            contents = opened.extractfile(member) if member.isfile() else None
            if contents is not None:
                found[member.name.removeprefix("./")] = contents.read()
    return found


if __name__ == "__main__":
    harness.run(main)
