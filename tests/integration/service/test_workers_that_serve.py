"""Gateways and mounts that are written, as an operator sees them in the list of processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from control import command

from seqferry.model.workers import WAITING
from seqferry.service.service import Service
from support.gateways import WrittenShares, need_libnfs, written_share
from support.mounts import Mounter, missing_fuse
from support.proxy import Proxy, held
from support.servers import S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

pytestmark = pytest.mark.parametrize("settings", ["postgres"], indirect=True)


def _waits(service: Service) -> dict[str, Any]:
    """Facts of the first sign of life of the one process."""
    [row] = eventually(service.workers, what="the row of the process")
    assert row.process.kind == "gateway"
    return row.activity.facts


def _lines(service: Service) -> list[str]:
    return command(service, "workers").stdout.splitlines()


def test_what_a_gateway_still_has_to_upload_is_seen_at_the_database(
    service: Service, versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path
) -> None:
    need_libnfs()
    bucket = make_bucket(versitygw)
    share = written_share("runs", f"s3://{bucket}/runs/", "settle = 86400")
    database = f'database_url = "{service.settings.database_url}"\n'
    before = WrittenShares(tmp_path, versitygw, share)
    before.write("runs/a", b"12345")
    before.close()

    gateway = WrittenShares(tmp_path, versitygw, database + share)
    try:
        [(name, waits)] = _waits(service)[WAITING].items()
        shown = _lines(service)
    finally:
        gateway.close()

    assert name == "runs"
    assert waits["oldest_dirty_seconds"] > 0
    del waits["oldest_dirty_seconds"]
    assert waits == {"dirty_files": 1, "dirty_bytes": 5, "failing_files": 0, "conflicts": 0, "window_is_open": True}
    assert " /runs: 1 file to upload, 5 B, the oldest for " in shown[-1]


def test_a_mount_that_is_written_is_seen_at_a_shared_database(
    service: Service,
    versitygw: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: BucketFactory,
    tmp_path: Path,
) -> None:
    if (missing := missing_fuse()) is not None:
        pytest.skip(missing)
    proxy = make_proxy(versitygw)
    place = f"s3://{make_bucket(versitygw)}/runs/"
    options = ("--read-write", "--cache", str(tmp_path / "cache"))
    environment = {**proxy.server.environment(), "SEQFERRY_DATABASE_URL": service.settings.database_url or ""}
    mounter = Mounter(tmp_path)
    try:
        with held(proxy, "PutObject", key="runs/a"):
            before, serving = mounter.foreground(proxy.server, place, *options)
            (before.directory / "a").write_bytes(b"12345")
            serving.kill()
            before.umount()

            mount = mounter(proxy.server, place, *options, environment=environment)
            facts = _waits(service)
        mount.umount()
        eventually(lambda: service.workers() == [], what="the end of the process that served")
    finally:
        mounter.close()

    assert (facts["shares"], facts["directory"], facts["source"]) == (["mount"], str(mount.directory), place)
    assert facts[WAITING]["mount"]["dirty_files"] == 1
    assert facts[WAITING]["mount"]["dirty_bytes"] == 5
