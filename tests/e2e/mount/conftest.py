"""Mounts of a test: started by the shipped command, gone with the test whatever state they are in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.mounts import Mounter, Server, missing_fuse


@pytest.fixture(autouse=True)
def _fuse() -> None:
    """Skips where there is no FUSE, and says so; where everything must be there, fails."""
    if (missing := missing_fuse()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture
def mounter(tmp_path: Path) -> Iterator[Mounter]:
    made = Mounter(tmp_path)
    yield made
    made.close()


@pytest.fixture
def put() -> Callable[..., None]:
    """``put(server, bucket, {key: bytes})``."""

    def put(server: Server, bucket: str, objects: dict[str, bytes], **attributes: Any) -> None:
        client = server.client()
        for key, body in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=body, **attributes)

    return put
