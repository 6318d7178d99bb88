"""Staging many small files for a pipeline: Nextflow with the plugin, a mount, and the commands that task wrappers call.

``make bench-pipelines`` stages 2,000 files of 4 KiB from versitygw, whose every reply a proxy holds back for 30 ms. For
Nextflow, staging lasts from its first line about a foreign file to the submission of the task, by its own log. All that
a command fetches is compared with what was stored, after the measured time.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e" / "nextflow")]

from nextflow_process import VERSIONS, Nextflow  # noqa: E402

import harness  # noqa: E402
from figures import Figure, Result  # noqa: E402
from support import servers  # noqa: E402
from support.mounts import missing_fuse  # noqa: E402
from support.processes import seqferry  # noqa: E402
from support.proxy import Proxy, delay  # noqa: E402
from support.run import MissingToolError, Run  # noqa: E402

FOLDER = "plugin, folder"
GLOB = "plugin, glob"
TAR = "one tar, unpack"
CACHE = "cp --cache, filled"
MOUNT = "mount, cp -r"
PEERS = ("AWS CLI", "s5cmd")
_STAMP = re.compile(r"^(\w{3}-\d\d \d\d:\d\d:\d\d\.\d{3}) .*(foreign file|Submitted process)", re.MULTILINE)
_PIPELINE = """
process STAGE {
    input: path found
    output: stdout
    script: "find -L . -name 'f*' -type f | wc -l"
}
workflow { STAGE(params.glob ? Channel.fromPath(params.uri + '/*').collect() : file(params.uri)) | view }
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return harness.of_many_objects(__doc__, "file", (2000, 4096), _measure, arguments)


def _measure(options: argparse.Namespace, run: Run, scratch: Path) -> Result:
    server = servers.start(run, "versitygw")
    bucket = server.create_bucket()
    content = _fill(server, bucket, options)
    left_out: list[str] = []
    errors: list[str] = []
    with Proxy(server) as proxy:
        proxy.rule((), delay(reply_ms=options.delay))
        environment = {**os.environ, **proxy.server.environment(), "S3_ENDPOINT_URL": proxy.endpoint_url}
        methods = _methods(run, scratch, bucket, environment, content, left_out)
        if options.ours:
            methods = {name: method for name, method in methods.items() if name not in PEERS}
        series, requests = harness.time_methods(methods, proxy, options, errors)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    group = f"versitygw, {options.count} files of {options.size} bytes, {options.delay} ms"
    figures = [
        Figure(group, "staging time", "s", "lower", series, baseline="s5cmd"),
        Figure(group, "requests", "", "lower", requests, baseline="s5cmd"),
    ]
    harness.print_table(figures)
    return Result("pipelines", figures, left_out=left_out, errors=errors)


def _fill(server: servers.S3Server, bucket: str, options: argparse.Namespace) -> dict[str, bytes]:
    content = harness.fill(server, bucket, options)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, body in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    server.client(server.user).put_object(Bucket=bucket, Key="in.tar", Body=packed.getvalue())
    return content


def _methods(
    run: Run,
    scratch: Path,
    bucket: str,
    environment: dict[str, str],
    content: dict[str, bytes],
    left_out: list[str],
) -> dict[str, Callable[[], float]]:
    uri = f"s3://{bucket}/in"
    methods: dict[str, Callable[[], float]] = {}

    def command(*words: str | Path) -> Callable[[], float]:
        def once() -> float:
            target = Path(tempfile.mkdtemp(dir=scratch)) / "in"
            began = time.monotonic()
            subprocess.run([*words, target], env=environment, check=True, capture_output=True, timeout=600)
            took = time.monotonic() - began
            found = {path.name: path.read_bytes() for path in target.iterdir()}
            shutil.rmtree(target.parent)
            if found != content:
                raise RuntimeError("what arrived is not what was stored")
            return took

        return once

    def mounted() -> float:
        """Mount, read every file as a task would, unmount."""
        folder = Path(tempfile.mkdtemp(dir=scratch))
        state = {**environment, "SEQFERRY_STATE_DIR": str(scratch / "state")}
        began = time.monotonic()
        subprocess.run([seqferry(), "mount", uri, folder], env=state, check=True, capture_output=True, timeout=60)
        ready = time.monotonic() - began
        try:
            return ready + command("cp", "-r", folder)()
        finally:
            subprocess.run([seqferry(), "umount", folder], env=state, check=True, capture_output=True, timeout=60)

    quiet = ("s3", "cp", "--only-show-errors", "--recursive", uri)
    methods["seqferry aws"] = command(seqferry(), "aws", *quiet)
    recorded = ("--quiet", "--state-dir", scratch / "state")
    # Another build may be an older one.
    if _has("unpack"):
        methods[TAR] = command(seqferry(), "unpack", *recorded, f"{uri}.tar")
    if _has("cp", "--cache"):
        methods[CACHE] = command(seqferry(), "cp", *recorded, "--cache", scratch / "cache", f"{uri}/")
        # As a task before this one has done.
        methods[CACHE]()
    if missing_tool := missing_fuse():
        left_out.append(missing_tool)
    else:
        methods[MOUNT] = mounted
    try:
        methods["AWS CLI"] = command(harness.tool("aws"), *quiet)
        methods["s5cmd"] = command(harness.tool("s5cmd"), "--log", "error", "cp", f"{uri}/*")
        plugins = _plugins(scratch)
        nextflow = Nextflow.find(VERSIONS[-1], run)
    except MissingToolError as missing:
        left_out.append(str(missing))
        return methods
    more = {**environment, "NXF_PLUGINS_DIR": str(plugins), "SEQFERRY_COMMAND": str(seqferry())}
    for name, glob in ((FOLDER, ""), (GLOB, "yes")):
        methods[name] = lambda glob=glob: _staging(nextflow, scratch, more, uri, glob, len(content))
    return methods


def _has(command: str, option: str = "") -> bool:
    """Whether the measured build knows the command, with this option."""
    ended = subprocess.run([seqferry(), command, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode == 0 and option in ended.stdout


def _plugins(scratch: Path) -> Path:
    built = sorted((ROOT / "dist").glob("nf-seqferry-*.zip"))
    if not built:
        raise MissingToolError("the plugin is not built: run `make nextflow-plugin`")
    with zipfile.ZipFile(built[-1]) as archive:
        archive.extractall(scratch / "plugins" / built[-1].stem)
    return scratch / "plugins"


def _staging(
    nextflow: Nextflow, scratch: Path, environment: dict[str, str], uri: str, glob: str, expected: int
) -> float:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    (folder / "main.nf").write_text(f"params.uri = ''\nparams.glob = ''\n{_PIPELINE}")
    config = ROOT / "examples" / "nextflow" / "seqferry.config"
    given = ["--uri", uri, *(["--glob", glob] if glob else [])]
    done = nextflow.run("-c", config, "run", "main.nf", *given, cwd=folder, environment=environment, deadline=600)
    if done.returncode != 0 or f"\n{expected}\n" not in done.stdout:
        raise RuntimeError(f"Nextflow ended with {done.returncode}: {done.stdout[-500:]}")
    stamps = [
        (datetime.strptime(f"2026-{stamp}", "%Y-%b-%d %H:%M:%S.%f"), what)  # noqa: DTZ007 - two of them are compared
        for stamp, what in _STAMP.findall((folder / ".nextflow.log").read_text())
    ]
    first = next(at for at, what in stamps if what == "foreign file")
    last = next(at for at, what in stamps if what == "Submitted process")
    shutil.rmtree(folder)
    return (last - first).total_seconds()


if __name__ == "__main__":
    harness.run(main)
