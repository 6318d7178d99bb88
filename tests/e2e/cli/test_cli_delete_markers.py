"""Objects under removed keys of a bucket with versions. versitygw counts their delete markers as objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Cli, Places

from support.buckets import open_uploads
from support.mover import MIB, SMALL_PARTS
from support.servers import S3Server

pytestmark = pytest.mark.every_server  # conditions count delete markers on one of them


@pytest.fixture
def versioned(cli: Cli, s3server: S3Server, make_bucket: Callable[..., str]) -> Places:
    cli.server = s3server
    return Places(s3server, make_bucket(s3server), make_bucket(s3server, versioned=True))


@pytest.mark.parametrize("if_exists", ["same", "fail"])
def test_files_are_copied_to_keys_that_were_removed(
    cli: Cli, versioned: Places, tmp_path: Path, if_exists: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    wanted = {"small": b"small", "large": os.urandom(11 * MIB)}
    for name, body in wanted.items():
        (folder / name).write_bytes(body)
    target = versioned.uris[1]
    command = ("cp", "--recursive", str(folder), target, *SMALL_PARTS, "--if-exists", if_exists)

    for _ in range(2):
        ran = cli.run(*command)
        assert ran.code == 0, ran.err
        assert versioned.content() == wanted
        assert cli.run("rm", "--recursive", target, "--yes").code == 0
        assert versioned.content() == {}
    assert cli.run(*command).code == 0
    assert cli.run(*command).code == (1 if if_exists == "fail" else 0)

    assert versioned.content() == wanted
    assert open_uploads(versioned.server, versioned.target) == []


def test_archives_go_to_keys_that_were_removed(cli: Cli, versioned: Places) -> None:
    versioned.s3.put_object(Bucket=versioned.source, Key="run42/a", Body=b"a")
    source, target = versioned.uris

    for _ in range(2):
        packed = cli.run("pack", source, f"{target}packed.tar")
        assert packed.code == 0, packed.err
        assert "packed.tar" in versioned.content()
        assert cli.run("rm", "--recursive", target, "--yes").code == 0
