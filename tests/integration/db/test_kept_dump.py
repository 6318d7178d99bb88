"""The database of an earlier version: unfinished transfers, paused ones and schedules go on under this one.

``kept/before-packages.sql`` and its audit key were written by the version before modules lay in packages. Its worker
was killed with 29 of 30 objects done.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from control import settings_for, until_ended
from mirror import SMALL, digests, fill

from seqferry.service import control, schedules
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.servers import S3Server

_KEPT = Path(__file__).with_name("kept")
_KILLED = "5ae25d53-926f-41a6-8ac1-08bd16edaa0c"
_PAUSED = "64d71938-a449-412f-9e2e-f9a59aaa8d5c"
_QUEUED = "c5dec610-2606-47a4-9873-5d92eccf2b24"


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """The server of the dump: ETags and checksums on record are of its kind."""
    return seaweedfs


def test_all_that_is_unfinished_goes_on(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    tmp_path: Path,
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    contents = random.Random(31)
    fill(s3server, source, {f"run/s{number:03d}": SMALL for number in range(30)}, contents)
    others = {f"{prefix}/{number}": SMALL for prefix in ("paused", "queued", "nightly") for number in range(3)}
    fill(s3server, source, others, contents)
    key = tmp_path / "audit.key"
    key.touch(0o600)
    key.write_bytes((_KEPT / "before-packages.key").read_bytes())
    settings = replace(settings_for(tmp_path, None), audit_key=key)
    settings.prepare_state_dir()
    text = (_KEPT / "before-packages.sql").read_text().replace("http://127.0.0.1:9", s3server.endpoint_url)
    with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as database:
        database.executescript(text.replace("the-source", source).replace("the-target", target))

    with Service.open(settings) as service:
        start_worker(service)

        killed = until_ended(service, _KILLED)
        assert (killed.state, killed.totals.done) == ("done", 30)
        assert list(digests(s3server, target, "run/")) == ["s029"], "what was done is not done again"
        assert until_ended(service, _QUEUED).state == "done"
        assert service.status(_PAUSED).state == "paused"
        control.resume(service, _PAUSED, actor="ada")
        assert until_ended(service, _PAUSED).state == "done"
        [nightly] = schedules.listed(service)
        assert (nightly.name, nightly.state) == ("nightly", "active")
        started = schedules.run_now(service, "nightly", actor="ada").transfer_id
        assert started is not None
        assert until_ended(service, started).state == "done"
        for prefix in ("queued/", "paused/", "nightly/"):
            assert digests(s3server, target, prefix) == digests(s3server, source, prefix)
