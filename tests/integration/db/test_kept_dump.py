"""Databases of earlier versions: unfinished transfers, paused ones and schedules go on under this one.

``kept`` has one of each release on SQLite and PostgreSQL, written by ``keep_dump.py``, and ``before-packages``, written
by the version before modules lay in packages. Each with its audit key; its worker was killed at 29 of 30 objects.

A rollback ends them as well: a newer version has brought the tables up to date, has added to them, and is gone. That
one is played by changes of the tables that a version within the rule of expand and contract may make.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import settings_for, until_ended
from keep_dump import ENDPOINT, KEPT, SOURCE, TARGET, contents
from mirror import digests

from seqferry.db.database import Database
from seqferry.db.migrate import VERSION_TABLE
from seqferry.engine.engine import version
from seqferry.model.errors import ConfigError
from seqferry.service import control, schedules
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.servers import S3Server


@dataclass(frozen=True)
class _Dump:
    """A kept database, and its transfers."""

    name: str
    killed: str
    paused: str
    queued: str
    is_postgres: bool = False


_DUMPS = (
    _Dump(
        "before-packages",
        killed="5ae25d53-926f-41a6-8ac1-08bd16edaa0c",
        paused="64d71938-a449-412f-9e2e-f9a59aaa8d5c",
        queued="c5dec610-2606-47a4-9873-5d92eccf2b24",
    ),
    _Dump(
        "release-0.1.0",
        killed="4104701f-77a5-4eb1-a384-a0730c261614",
        paused="c9a6f021-11bc-438e-82ea-80b7b46ace4e",
        queued="df9ecbb9-b02e-44e0-849e-d0ddd50815bc",
    ),
    _Dump(
        "release-0.1.0-postgres",
        killed="b070faec-9f03-4734-bd4e-90911109369e",
        paused="9facdc9e-b38b-44ff-9c84-c0d05a4010fe",
        queued="2fa48845-29b1-4b42-8b59-f3eb5e6dd632",
        is_postgres=True,
    ),
)


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """The server of the dump: ETags and checksums on record are of its kind."""
    return seaweedfs


_ROLLED_BACK = tuple(dump for dump in _DUMPS if dump.name.startswith("release-"))
_CASES = [
    *(pytest.param(dump, False, id=dump.name) for dump in _DUMPS),
    *(pytest.param(dump, True, id=f"{dump.name}, rolled back") for dump in _ROLLED_BACK),
]


@pytest.mark.parametrize(("dump", "rolled_back"), _CASES)
def test_all_that_is_unfinished_goes_on(
    dump: _Dump,
    rolled_back: bool,
    request: pytest.FixtureRequest,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    tmp_path: Path,
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    contents(s3server, source)
    key = tmp_path / "audit.key"
    key.touch(0o600)
    key.write_bytes((KEPT / f"{dump.name}.key").read_bytes())
    url = request.getfixturevalue("postgres_url") if dump.is_postgres else None
    settings = replace(settings_for(tmp_path, url), audit_key=key)
    settings.prepare_state_dir()
    text = (KEPT / f"{dump.name}.sql").read_text().replace(ENDPOINT, s3server.endpoint_url)
    _restore(settings, text.replace(SOURCE, source).replace(TARGET, target))

    if rolled_back:
        _use_by_a_newer_version(settings)
    with Service.open(settings) as service, start_worker(service):  # it stops before service and database close
        killed = until_ended(service, dump.killed)
        assert (killed.state, killed.totals.done) == ("done", 30)
        assert list(digests(s3server, target, "run/")) == ["s029"], "what was done is not done again"
        assert until_ended(service, dump.queued).state == "done"
        assert service.status(dump.paused).state == "paused"
        control.resume(service, dump.paused, actor="ada")
        assert until_ended(service, dump.paused).state == "done"
        [nightly] = schedules.list_schedules(service)
        assert (nightly.name, nightly.state) == ("nightly", "active")
        started = schedules.run_now(service, "nightly", actor="ada").transfer_id
        assert started is not None
        assert until_ended(service, started).state == "done"
        for prefix in ("queued/", "paused/", "nightly/"):
            assert digests(s3server, target, prefix) == digests(s3server, source, prefix)


def _use_by_a_newer_version(settings: Settings) -> None:
    """Bring the tables up to date, and add to them what this version knows nothing of."""
    Service.open(settings).close()
    database = Database(settings)
    with database.write() as connection:
        for statement in (
            f"update {VERSION_TABLE} set version_num = '9999'",
            "alter table transfer add column added text",
            "alter table batch add column added integer not null default 0",
            "create table added (id integer primary key)",
        ):
            connection.execute(sa.text(statement))
    database.close()


def test_a_newer_version_that_has_taken_something_away_is_refused_and_nothing_is_changed(
    s3server: S3Server, tmp_path: Path
) -> None:
    dump = _ROLLED_BACK[0]
    settings = settings_for(tmp_path, None)
    settings.prepare_state_dir()
    _restore(settings, (KEPT / f"{dump.name}.sql").read_text().replace(ENDPOINT, s3server.endpoint_url))
    _use_by_a_newer_version(settings)
    with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as file:
        file.execute("update schema_note set comment = '9999' where about = 'oldest reader'")
        before = "\n".join(file.iterdump())

    with pytest.raises(ConfigError, match=r"newer version of seqferry\. Upgrade seqferry"):
        Service.open(settings)

    with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as file:
        assert "\n".join(file.iterdump()) == before


def _restore(settings: Settings, text: str) -> None:
    if settings.database_url is None:
        with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as database:
            database.executescript(text)
        return
    url = settings.database_url.replace("postgresql+psycopg:", "postgresql:")
    command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", url]
    done = subprocess.run(command, input=text, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_this_release_has_its_databases() -> None:
    assert {file.stem for file in KEPT.glob("*.sql")} == {dump.name for dump in _DUMPS}
    assert {f"release-{version()}", f"release-{version()}-postgres"} <= {dump.name for dump in _DUMPS}
