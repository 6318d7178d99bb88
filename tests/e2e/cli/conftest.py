"""Fixtures for the shipped command as a process, against real S3 servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_process import Cli, Places

from support.run import MissingToolError, Run
from support.servers import S3Server
from support.state import prepare


@pytest.fixture
def places(cli: Cli, s3server: S3Server, make_bucket: Callable[..., str]) -> Places:
    """Two buckets on each server in turn, which ``cli`` then uses."""
    cli.server = s3server
    return Places(s3server, make_bucket(s3server), make_bucket(s3server))


@pytest.fixture
def versitygw_places(cli: Cli, versitygw: S3Server, make_bucket: Callable[..., str]) -> Places:
    """Two buckets where one server is enough, since what is tested is our side only: on the one that is quicker."""
    cli.server = versitygw
    return Places(versitygw, make_bucket(versitygw), make_bucket(versitygw))


@pytest.fixture
def seaweedfs_places(cli: Cli, seaweedfs: S3Server, make_bucket: Callable[..., str]) -> Iterator[Places]:
    """As ``versitygw_places``, on the server that takes keys with escapes."""
    cli.server = seaweedfs
    places = Places(seaweedfs, make_bucket(seaweedfs), make_bucket(seaweedfs))
    yield places
    places.empty()


@pytest.fixture
def cli(run: Run, tmp_path: Path) -> Iterator[Cli]:
    """The command with a state folder of its own; its processes end with the test."""
    try:
        made = Cli(prepare(run, tmp_path / "state"))
    except MissingToolError as missing:
        pytest.skip(str(missing))
    with made:
        yield made
