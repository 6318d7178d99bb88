"""Databases of earlier versions: unfinished transfers, paused ones and schedules go on under this one.

``kept`` has one of each release on SQLite and PostgreSQL with its audit key, written by ``keep_dump.py``. Its worker
was killed at 29 of 30 objects. They also go on under a later version (``later``), which upgrades them, and under this
one after such a version has added to the tables and is gone.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import later
import pytest
import sqlalchemy as sa
from control import settings_for, until_ended
from keep_dump import ENDPOINT, KEPT, SOURCE, TARGET, contents
from mirror import digests

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
        "release-0.1.0",
        killed="40f136bf-c981-4e9d-aab3-4de4b05d38a5",
        paused="fcc28b0c-921f-4aa8-9c29-673ae3ebe18c",
        queued="796c536a-3207-4178-bf22-441922abcff2",
    ),
    _Dump(
        "release-0.1.0-postgres",
        killed="19952fcc-8981-4859-aeb2-e2f381057a98",
        paused="caf1b3f3-7713-454f-8e64-33b8b20d50ec",
        queued="25cb61b9-93f2-4b13-bab0-4b3441393ae9",
        is_postgres=True,
    ),
)


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """The server of the dump: ETags and checksums on record are of its kind."""
    return seaweedfs


_History = Literal["opened", "upgraded", "rolled back"]


@pytest.mark.parametrize("dump", _DUMPS, ids=lambda dump: dump.name)
@pytest.mark.parametrize("history", get_args(_History))
def test_all_that_is_unfinished_goes_on(
    dump: _Dump,
    history: _History,
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

    if history != "opened":
        _upgrade(settings)
    with later.version() if history == "upgraded" else nullcontext():
        _go_on(settings, dump, s3server, source, target, start_worker)


def _go_on(
    settings: Settings,
    dump: _Dump,
    s3server: S3Server,
    source: str,
    target: str,
    start_worker: Callable[[Service], Worker],
) -> None:
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


def _upgrade(settings: Settings) -> None:
    """Open the database with a later version, which fills what it adds from rows that are there."""
    with later.version(), Service.open(settings) as service, service.database.read() as connection:
        added = connection.execute(sa.text("select later from transfer")).scalars().all()
        assert added == ["ada"] * 3
        assert connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar() == later.HEAD


def test_a_newer_version_that_has_taken_something_away_is_refused_and_nothing_is_changed(
    s3server: S3Server, tmp_path: Path
) -> None:
    dump = _DUMPS[0]
    settings = settings_for(tmp_path, None)
    settings.prepare_state_dir()
    _restore(settings, (KEPT / f"{dump.name}.sql").read_text().replace(ENDPOINT, s3server.endpoint_url))
    _upgrade(settings)
    with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as file:
        file.execute("update schema_note set comment = '9999' where about = 'oldest reader'")
        before = "\n".join(file.iterdump())

    with pytest.raises(ConfigError, match="newer version of seqferry: upgrade seqferry"):
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
