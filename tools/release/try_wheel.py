"""Installs a wheel into an empty environment and uses it there: no compiler, nothing of this checkout, only the lock.

try_wheel.py WHEEL           also installs what the demo needs, copies to its S3 server and back, and runs the demo
try_wheel.py WHEEL --here    copies to the S3 server that AWS_ENDPOINT_URL names, if one does, and runs no demo
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import wheel_paths

ROOT: Final = Path(__file__).parents[2]
RUNTIME_LOCK: Final = ROOT / "requirements-runtime.lock"
DEMO_LOCK: Final = ROOT / "target/dist/demo.lock"
"""The same with the packages of the demo; `make dist` writes it."""

PROGRAMS: Final = ("cc", "gcc", "clang", "cargo", "rustc", "maturin", "python3-config")
"""None of them may be in the environment, which alone is on the path of the trial."""

SERVER: Final = """
import json, sys
from seqferry.demo.reaper import Reaper
from seqferry.demo.server import SeaweedFS

with Reaper() as reaper, SeaweedFS(reaper) as server:
    print(json.dumps({**server.credentials(), "AWS_ENDPOINT_URL": server.endpoint_url}), flush=True)
    sys.stdin.read()
"""
FILES: Final = {"empty": 0, "reads/R1.fastq.gz": 20_000_000, "reads/a b+ä.txt": 31}
DEADLINE_SECONDS: Final = 600


class TrialError(Exception):
    """Something did not work in the empty environment."""


class EmptyEnvironment:
    """A virtual environment of this interpreter, without even pip, and a process environment of few variables."""

    def __init__(self, folder: Path) -> None:
        self.python: Final = folder / "venv/bin/python"
        self.variables: Final = {
            "PATH": str(self.python.parent),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TMPDIR": str(folder),
            "SEQFERRY_STATE_DIR": str(folder / "state"),
            "SEQFERRY_NO_PROGRESS": "1",
        }
        self.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
        for name in PROGRAMS:
            if (self.python.parent / name).exists():
                raise TrialError(f"{name} is in the empty environment.")

    def install(self, lock: Path, wheel: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(self.python)]
        install = [*pip, "install", "--no-compile"]
        with_registry = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}
        self.run(
            [*install, "--only-binary", ":all:", "--require-hashes", "--requirement", str(lock)],
            variables=with_registry,
        )
        self.run([*install, "--no-deps", "--no-index", str(wheel)], variables=with_registry)
        self.run([*pip, "check"], variables=with_registry)

    def run(self, command: list[str], *, variables: Mapping[str, str] | None = None) -> str:
        """Standard output of a command.

        Raises:
            TrialError: it has failed.
        """
        ran = subprocess.run(
            command,
            env=dict(self.variables if variables is None else variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
            cwd="/",
        )
        if ran.returncode != 0:
            raise TrialError(f"`{' '.join(command)}` ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}".rstrip())
        return ran.stdout

    def seqferry(self, *words: str, variables: Mapping[str, str] | None = None) -> str:
        return self.run(
            [str(self.python.with_name("seqferry")), *words], variables={**self.variables, **(variables or {})}
        )


def copy_and_back(empty: EmptyEnvironment, folder: Path, storage: Mapping[str, str]) -> None:
    """Copy files to a bucket and back.

    Raises:
        TrialError: they are not what they were.
    """
    sent, back = folder / "sent", folder / "back"
    for name, size in FILES.items():
        (sent / name).parent.mkdir(parents=True, exist_ok=True)
        (sent / name).write_bytes(os.urandom(size))
    given = os.environ.get("SEQFERRY_TRIAL_BUCKET")
    bucket = f"s3://{given or f'seqferry-trial-{os.getpid()}-{time.time_ns()}'}"
    if not given:
        empty.seqferry("mb", bucket, variables=storage)
    for words in (
        ("cp", str(sent), f"{bucket}/run/"),
        ("cp", f"{bucket}/run/", str(back)),
        ("audit", "verify"),
        ("rm", "--yes", "--recursive", f"{bucket}/run/"),
    ):
        empty.seqferry(*words, variables=storage)
    if not given:
        empty.seqferry("rb", bucket, variables=storage)
    arrived = {name: (back / name).read_bytes() for name in FILES if (back / name).is_file()}
    if arrived != {name: (sent / name).read_bytes() for name in FILES}:
        raise TrialError("The files that were copied to a bucket and back are not what they were.")


@contextmanager
def demo_server(empty: EmptyEnvironment) -> Iterator[dict[str, str]]:
    """Variables for the S3 server of the demo, which runs from its own environment."""
    with subprocess.Popen(
        [empty.python, "-c", SERVER], env=empty.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise TrialError("The S3 server of the demo does not start.")
        yield json.loads(line)


def try_wheel(wheel: Path, say: Callable[[str], None], *, sbom: Path | None = None, demo: bool = True) -> None:
    """Install and use a wheel.

    Args:
        sbom: file for the bill of materials of the Python packages, taken from the environment.
        demo: copy to the demo's server and run the demo; else to the server that AWS_ENDPOINT_URL names, if one does.

    Raises:
        TrialError: something has failed.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seqferry-trial-") as name:
        folder = Path(name)
        runtime = EmptyEnvironment(_made(folder / "runtime"))
        runtime.install(RUNTIME_LOCK, wheel)
        version = runtime.seqferry("--version").strip()
        if sbom is not None:
            write_sbom(runtime.python, sbom)
        if demo:
            full = EmptyEnvironment(_made(folder / "demo"))
            full.install(DEMO_LOCK, wheel)
            with demo_server(full) as storage:
                copy_and_back(runtime, folder, storage)
            full.seqferry("demo", "--scale", "0.3")
            what = "copied to a bucket and back, the demo ran"
        elif "AWS_ENDPOINT_URL" in os.environ:
            storage = {key: value for key, value in os.environ.items() if key.startswith("AWS_")}
            copy_and_back(runtime, folder, storage)
            what = "copied to a bucket and back"
        else:
            what = "nothing copied, as AWS_ENDPOINT_URL names no server"
    say(f"{wheel.name} in an empty environment without a compiler: {version}, {what}; {time.monotonic() - began:.0f} s")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def write_sbom(python: Path, sbom: Path) -> None:
    tool = Path(sys.executable).with_name("cyclonedx-py")
    command = [tool, "environment", "--output-reproducible", "--output-file", sbom, python]
    subprocess.run(command, check=True)
    sbom.write_bytes(wheel_paths.without_root(sbom.read_bytes(), ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(description="Install a wheel into an empty environment and use it there.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--here", action="store_true", help="use the S3 server that AWS_ENDPOINT_URL names; no demo")
    given = parser.parse_args()
    try:
        try_wheel(given.wheel.resolve(), print, demo=not given.here)
    except TrialError as why:
        print(f"try_wheel: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
