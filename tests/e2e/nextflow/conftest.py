"""Real Nextflow, the commands for its task wrappers, and the functions that it writes into them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from example_pipeline import EXAMPLE, REFERENCES, SAMPLES
from nextflow_process import VERSIONS, Nextflow, bash_functions

from support.mounts import Mounter, missing_fuse
from support.processes import seqferry
from support.run import ROOT, MissingToolError, Run
from support.servers import S3Server


def _skip(missing: MissingToolError) -> NoReturn:
    if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing))


@pytest.fixture(scope="session")
def prefix(run: Run) -> Path:
    """Where `seqferry nextflow install-cli` has put its commands."""

    def make() -> dict[str, Any]:
        folder = run.folder / "prefix"
        subprocess.run([seqferry(), "nextflow", "install-cli", folder], check=True, capture_output=True, timeout=120)
        return {"folder": str(folder)}

    try:
        return Path(run.once("nextflow-prefix", make)["folder"])
    except MissingToolError as missing:
        _skip(missing)


@pytest.fixture(scope="session", params=VERSIONS)
def nextflow(request: pytest.FixtureRequest, run: Run) -> Nextflow:
    """Each version of Nextflow in turn."""
    try:
        return Nextflow.find(request.param, run)
    except MissingToolError as missing:
        _skip(missing)


@pytest.fixture(scope="session")
def functions(run: Run) -> str:
    """The Bash functions for staging in parallel, as the newest of these Nextflows writes them into its wrappers."""
    try:
        return run.once("nextflow-functions", lambda: {"text": bash_functions(run)})["text"]
    except MissingToolError as missing:
        _skip(missing)


@pytest.fixture
def bucket(s3server: S3Server, make_bucket: Callable[..., str]) -> str:
    """A bucket on each server in turn."""
    return make_bucket(s3server)


@pytest.fixture
def events() -> Callable[[str], list[dict[str, Any]]]:
    """``events(text)``: lines of JSON as values."""
    return lambda text: [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def plugins(run: Run) -> Path:
    """A plugins folder with what `make nextflow-plugin` has built, as the command unpacks it."""
    if not (ROOT / "python" / "seqferry" / "nextflow" / "nf-seqferry.zip").exists():
        hint = "(Debian: apt-get install maven openjdk-17-jdk-headless)"
        _skip(MissingToolError(f"the plugin is not built: run `make nextflow-plugin` {hint}"))
    folder = run.folder / f"plugins-{os.getpid()}"
    command = [seqferry(), "nextflow", "install-plugin", "--plugins-dir", folder]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture(scope="session")
def data(run: Run) -> Path:
    """The example's FASTQs and reference files."""

    def make() -> dict[str, str]:
        folder = run.folder / "pipeline-data"
        command = [sys.executable, EXAMPLE / "make_data.py", folder, str(SAMPLES), str(REFERENCES)]
        subprocess.run(command, check=True, timeout=60)
        return {"folder": str(folder)}

    return Path(run.once("pipeline-data", make)["folder"])


@pytest.fixture(scope="session")
def newest(run: Run) -> Nextflow:
    """For what does not depend on the version."""
    try:
        return Nextflow.find(VERSIONS[-1], run)
    except MissingToolError as missing:
        _skip(missing)


@pytest.fixture
def mounter(tmp_path: Path) -> Iterator[Mounter]:
    """Mounts that are gone with the test."""
    if (missing := missing_fuse()) is not None:
        _skip(MissingToolError(missing))
    made = Mounter(tmp_path)
    yield made
    made.close()
