"""A server with KMS, and one with a lock on its archives, beside those of all tests."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat import fleet
from compat.fleet import Endpoint
from support.mover import Mover
from support.run import MissingToolError, Run, find_tool
from support.state import prepare

KMS_KEY = "lab"


@pytest.fixture(scope="session")
def kms_server(run: Run) -> Endpoint:
    """MinIO with a KMS that knows the key ``lab``."""
    secret = base64.b64encode(bytes(range(32))).decode()
    try:
        find_tool("minio", variable="SEQFERRY_MINIO", hint="run `make compat-tools` (needs Go)")
    except MissingToolError as missing:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    return fleet.minio(run, {"MINIO_KMS_SECRET_KEY": f"{KMS_KEY}:{secret}"})


@pytest.fixture(scope="session")
def moto(run: Run) -> Endpoint:
    try:
        return fleet.fleet()["moto"].start(run)
    except MissingToolError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def new_bucket() -> Callable[[Endpoint], str]:
    """``new_bucket(endpoint)``: a fresh bucket on a server of this folder, which ends with the run."""

    def make(endpoint: Endpoint, **options: Any) -> str:
        bucket = f"bucket-{next(_NUMBERS)}"
        endpoint.client().create_bucket(Bucket=bucket, **options)
        return bucket

    return make


@pytest.fixture
def mover_at(run: Run, tmp_path: Path) -> Iterator[Callable[[Any], Mover]]:
    """``mover_at(endpoint)``: the command with a state folder of its own, talking to a server of this folder."""
    made: list[Mover] = []

    def make(server: Any) -> Mover:
        made.append(Mover(server, prepare(run, tmp_path / f"state-at{len(made)}")))
        return made[-1]

    yield make
    for mover in made:
        mover.__exit__()


def behind(endpoint: Endpoint, url: str) -> Endpoint:
    return replace(endpoint, url=url)


_NUMBERS = iter(range(1, 10**9))
