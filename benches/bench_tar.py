"""Making one tar of many objects: Seqferry, and a download, tar and an upload by the AWS CLI or s5cmd.

``make bench-tar`` packs 1,000 objects of 1 MiB from versitygw to versitygw, whose every reply a proxy holds back for
30 ms. Each archive is read back and compared with what was stored, after the measured time.
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
from figures import Figure, Result, spread  # noqa: E402
from support import servers  # noqa: E402
from support.processes import seqferry  # noqa: E402
from support.proxy import Proxy, delay  # noqa: E402
from support.run import Run, find_tool  # noqa: E402

OURS = "seqferry pack"
_SCRIPTS = {
    "AWS CLI, tar": '"$TOOL" s3 cp --only-show-errors --recursive "$IN" "$DIR" && '
    'tar -cf - -C "$DIR" . | "$TOOL" s3 cp --only-show-errors - "$OUT"',
    "s5cmd, tar": '"$TOOL" cp "$IN*" "$DIR/" && tar -cf - -C "$DIR" . | "$TOOL" pipe "$OUT"',
}
_TOOLS = {"AWS CLI, tar": "aws", "s5cmd, tar": "s5cmd"}


def main(arguments: Sequence[str] | None = None) -> int:
    return harness.of_many_objects(__doc__, "object", (1000, 1 << 20), _measure, arguments)


def _measure(options: argparse.Namespace, run: Run, scratch: Path) -> Result:
    server = servers.start(run, "versitygw")
    bucket = server.create_bucket()
    content = harness.fill(server, bucket, options)
    series: dict[str, list[float]] = {}
    errors: list[str] = []
    with Proxy(server) as proxy:
        proxy.rule((), delay(reply_ms=options.delay))
        environment = {
            **os.environ,
            **proxy.server.environment(),
            "S3_ENDPOINT_URL": proxy.endpoint_url,
            "SEQFERRY_STATE_DIR": str(scratch / "state"),
        }
        methods = _methods(scratch, bucket, environment)
        if options.ours:
            methods = {OURS: methods[OURS]}
        for turn in range(options.rounds):
            names = list(methods)
            at = (turn + options.turn) % len(names)
            for name in names[at:] + names[:at]:
                key = f"out/{turn}-{names.index(name)}.tar"
                try:
                    series.setdefault(name, []).append(methods[name](key))
                    _check(server, bucket, key, content)
                except (RuntimeError, subprocess.SubprocessError) as why:
                    errors.append(f"{name}: {why}")
    for name, values in series.items():
        print(f"{name:24} {spread(values)} s")
    group = f"versitygw, {options.count} objects of {options.size} bytes, {options.delay} ms"
    figures = [Figure(group, "time to the archive", "s", "lower", series, baseline="AWS CLI, tar")]
    return Result("tar", figures, left_out=[], errors=errors)


def _methods(scratch: Path, bucket: str, environment: dict[str, str]) -> dict[str, Callable[[str], float]]:
    source = f"s3://{bucket}/in/"

    def timed(command: Sequence[str | Path], **more: str) -> float:
        began = time.monotonic()
        subprocess.run(command, env={**environment, **more}, check=True, capture_output=True, timeout=900)
        return time.monotonic() - began

    def pack(key: str) -> float:
        return timed([seqferry(), "pack", source, f"s3://{bucket}/{key}", "--quiet"])

    def by_tar(name: str) -> Callable[[str], float]:
        tool = find_tool(_TOOLS[name], variable=f"SEQFERRY_{_TOOLS[name].upper()}", hint="run `make tools`")

        def once(key: str) -> float:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            words = {"TOOL": str(tool), "IN": source, "OUT": f"s3://{bucket}/{key}", "DIR": str(folder)}
            try:
                return timed(["bash", "-c", f"set -o pipefail; {_SCRIPTS[name]}"], **words)
            finally:
                shutil.rmtree(folder)

        return once

    return {OURS: pack, **{name: by_tar(name) for name in _SCRIPTS}}


def _check(server: servers.S3Server, bucket: str, key: str, content: dict[str, bytes]) -> None:
    archive = server.client().get_object(Bucket=bucket, Key=key)["Body"].read()
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for member in opened:
            contents = opened.extractfile(member) if member.isfile() else None
            if contents is not None:
                found[member.name.removeprefix("./")] = contents.read()
    if found != content:
        raise RuntimeError("the archive does not hold what was stored")


if __name__ == "__main__":
    harness.run(main)
