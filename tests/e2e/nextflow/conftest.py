"""Real Nextflow, the commands for its task wrappers, and the functions that it writes into them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from nextflow_process import VERSIONS, Nextflow, bash_functions

from support.processes import seqferry
from support.run import MissingToolError, Run
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
