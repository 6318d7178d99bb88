"""Tables are created once on both databases, whichever process comes first."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from control import ANY_SPEC

import seqferry.db
from seqferry.db import notice_rows, object_pages
from seqferry.db.database import Database
from seqferry.db.migrate import (
    FIRST_TOLERANT,
    HEAD,
    VERSION_TABLE,
    migrate,
    oldest_reader,
    require_current,
    upgrade_to,
)
from seqferry.db.notice_rows import Subject
from seqferry.db.paging import ObjectFilter
from seqferry.db.tables import complete, notice, object_, tally
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess

pytestmark = pytest.mark.every_database


def _opened(empty_settings: Settings) -> Database:
    empty_settings.prepare_state_dir()
    database = Database(empty_settings)
    migrate(empty_settings, database)
    return database


def test_the_migrations_make_the_tables_that_the_code_knows(empty_settings: Settings) -> None:
    database = _opened(empty_settings)

    with database.read() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": VERSION_TABLE,
                "compare_type": True,
                "include_name": lambda name, kind, _: not (kind == "table" and _is_of_dbos(connection, name)),
            },
        )
        differences = compare_metadata(context, complete())
    database.close()

    assert differences == []


def _is_of_dbos(connection: sa.Connection, table: str | None) -> bool:
    # On SQLite the tables of DBOS live beside ours.
    return table not in complete().tables


def test_keys_are_compared_byte_by_byte(empty_settings: Settings) -> None:
    database = _opened(empty_settings)
    keys = ["a", "B", "a-1", "a/1", "ä", "Z", "z", "~"]

    with database.write() as connection:
        for key in keys:
            connection.execute(
                sa.text("insert into anchor (place, number, hash, at) values (:key, 1, 'hash', 1)"),
                {"key": key},
            )
        found = list(connection.execute(sa.text("select place from anchor order by place")).scalars())
    database.close()

    assert found == sorted(keys, key=lambda key: key.encode())


def test_migrating_again_changes_nothing(empty_settings: Settings) -> None:
    database = _opened(empty_settings)
    migrate(empty_settings, database)
    database.close()

    again = _opened(empty_settings)
    with again.read() as connection:
        versions = list(connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalars())
    again.close()

    assert versions == [HEAD]


def test_processes_that_open_a_fresh_database_at_once_take_turns(empty_settings: Settings) -> None:
    script = (
        "import sys\n"
        "from seqferry.settings.config import Settings\n"
        "from seqferry.service.service import Service\n"
        "with Service.open(Settings.load({}, state_dir=sys.argv[1], database_url=sys.argv[2] or None)) as service:\n"
        "    print(len(service.transfers()))\n"
    )
    command = [sys.executable, "-c", script, str(empty_settings.state_dir), empty_settings.database_url or ""]

    with ExitStack() as stack:
        opening = [stack.enter_context(RunningProcess(command, is_preloaded=True)) for _ in range(4)]
        for process in opening:
            assert (process.wait(), process.stdout) == (0, "0\n"), process


_NEWER = [
    pytest.param(HEAD, None, True, id="only added to"),
    pytest.param("9999", None, False, id="contracted"),
    pytest.param(None, None, False, id="of a version that does not say"),
    pytest.param(HEAD, "0.0.1", False, id="with other tables of the queue"),
]


@pytest.mark.parametrize(("oldest", "dbos", "is_used"), _NEWER)
def test_a_newer_database_is_used_as_long_as_it_was_only_added_to(
    empty_settings: Settings, oldest: str | None, dbos: str | None, is_used: bool
) -> None:
    database = _opened(empty_settings)
    with database.write() as connection:
        connection.execute(sa.text(f"update {VERSION_TABLE} set version_num = '9999'"))
        connection.execute(sa.text("alter table transfer add column added text"))
        connection.execute(sa.text("delete from schema_note where about = 'oldest reader'"))
        if oldest is not None:
            values = {"oldest": oldest}
            connection.execute(sa.text("insert into schema_note values ('oldest reader', :oldest)"), values)
        if dbos is not None:
            connection.execute(sa.text("update schema_note set comment = :dbos where about = 'dbos'"), {"dbos": dbos})
    database.close()

    if not is_used:
        with pytest.raises(ConfigError, match="newer version"):
            Service.open(empty_settings)
        return
    with Service.open(empty_settings) as service:
        transfer_id = service.submit(ANY_SPEC, actor="ada")
        assert service.status(transfer_id).state == "queued"
    database = Database(empty_settings)
    require_current(database)
    with database.read() as connection:
        assert connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar() == "9999"
    database.close()


def test_an_upgrade_notes_the_oldest_program_that_can_use_the_database(empty_settings: Settings) -> None:
    database = _opened(empty_settings)

    with database.read() as connection:
        noted = connection.execute(sa.text("select comment from schema_note where about = 'oldest reader'")).scalar()
    database.close()

    assert noted == oldest_reader() <= HEAD


_CONTRACTING = re.compile(r"op\.(drop_|alter_column|rename_|execute|batch_alter)|nullable=False(?!.*server_default)")


def test_each_migration_says_whether_it_contracts() -> None:
    """One that only adds has no statement that takes something from older programs, or that their writes fail at."""
    for file in sorted((Path(seqferry.db.__file__).parent / "migrations" / "versions").glob("m*.py")):
        if file.name[1:5] <= FIRST_TOLERANT:
            continue
        text = file.read_text()
        assert re.search(r"^contracts = (True|False)$", text, re.MULTILINE), file.name
        added = "\n".join(line for line in text.splitlines() if "op.add_column" in line or "op." in line)
        assert "contracts = True" in text or not _CONTRACTING.search(added), file.name


def test_a_database_of_the_first_version_keeps_what_it_holds(empty_settings: Settings) -> None:
    empty_settings.prepare_state_dir()
    database = Database(empty_settings)
    with database.write() as connection:
        upgrade_to(connection, "0001")
        for transfer_id in ("a", "empty"):
            connection.execute(
                sa.text(
                    "insert into transfer (id, state, spec, created_at, created_by) "
                    "values (:id, 'running', '{}', 1, 'ada')"
                ),
                {"id": transfer_id},
            )
        for number, (done, failed) in enumerate([(2, 1), (0, 0)]):
            connection.execute(
                sa.text(
                    "insert into batch (transfer_id, number, state, objects, bytes, done, skipped, failed, cancelled, "
                    "bytes_done, runs, barren_runs) "
                    "values ('a', :number, 'active', 3, 12, :done, 0, :failed, 0, :bytes_done, 1, 0)"
                ),
                {"number": number, "done": done, "failed": failed, "bytes_done": 4 * done},
            )
        states = [("done", None), ("done", "retry"), ("failed", None), *[("pending", None)] * 3]
        for row, (state, error_class) in enumerate(states):
            connection.execute(
                sa.text(
                    "insert into object (transfer_id, batch_number, source_key, version_id, target_key, size, etag, "
                    "last_modified, state, attempts, retries, error_class) "
                    "values ('a', :number, :key, '', :key, 4, 'etag', 1, :state, 1, 0, :error_class)"
                ),
                {"number": row // 3, "key": f"k{row}", "state": state, "error_class": error_class},
            )
    with database.write() as connection:
        upgrade_to(connection)

    with database.read() as connection:
        kept = {row.transfer_id: tuple(row)[1:] for row in connection.execute(sa.select(tally))}
        classes = list(connection.execute(sa.select(object_.c.error_class).order_by(object_.c.id)).scalars())
        failed = object_pages.read(connection, "a", ObjectFilter(state="failed"), None, 10).entries
        version = connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar()
    database.close()

    assert version == HEAD
    assert kept == {"a": (6, 24, 2, 0, 1, 0, 8), "empty": (0, 0, 0, 0, 0, 0, 0)}
    assert classes == [None, None, "object", None, None, None]
    assert [record.source_key for record in failed] == ["k2"]


def test_notices_that_were_there_are_about_transfers(empty_settings: Settings) -> None:
    empty_settings.prepare_state_dir()
    database = Database(empty_settings)
    with database.write() as connection:
        upgrade_to(connection, "0015")
        for number, state in enumerate(("pending", "sent")):
            connection.execute(
                sa.text(
                    "insert into notice (transfer_id, kind, episode, channel, state, attempts, created_at, next_at, "
                    "sent_at, error) values ('a', 'stalled', :number, 'lims', :state, 3, 1.5, 2.5, :number, 'refused')"
                ),
                {"number": number, "state": state},
            )
    with database.write() as connection:
        upgrade_to(connection)
        # What is there is not recorded again.
        notice_rows.record(connection, Subject("transfer", "a"), "stalled", ["lims"], at=9.0, episode=1)

    with database.read() as connection:
        kept = [tuple(row) for row in connection.execute(sa.select(notice).order_by(notice.c.episode))]
        due = notice_rows.due(connection, ["lims"], 3.0, 10)
    database.close()

    assert kept == [
        ("transfer", "a", "stalled", 0, "lims", "pending", 3, 1.5, 2.5, 0.0, "refused"),
        ("transfer", "a", "stalled", 1, "lims", "sent", 3, 1.5, 2.5, 1.0, "refused"),
    ]
    assert [notice_rows.subject_of(row) for row in due] == [Subject("transfer", "a")]


def test_the_newest_migration_is_the_one_written_down() -> None:
    scripts = ScriptDirectory(str(Path(seqferry.db.__file__).parent / "migrations"))

    assert scripts.get_heads() == [HEAD]


def test_sqlite_keeps_a_write_ahead_log(sqlite_settings: Settings) -> None:
    database = _opened(sqlite_settings)

    with database.read() as connection:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"
    database.close()


def test_sqlite_syncs_a_transaction_unless_it_may_be_lost(sqlite_settings: Settings) -> None:
    database = _opened(sqlite_settings)

    for durable in (True, False, True):
        with database.write(durable=durable) as connection:
            assert connection.exec_driver_sql("pragma synchronous").scalar() == (2 if durable else 1)
    database.close()


def test_an_unreachable_postgres_is_one_message_without_the_password(tmp_path: Path) -> None:
    settings = Settings.load({}, state_dir=tmp_path, database_url="postgresql://ada:hunter2@127.0.0.1:9/work")

    with pytest.raises(ConfigError, match=r"postgresql://127\.0\.0\.1:9/work cannot be used") as refused:
        Service.open(settings)

    assert "hunter2" not in refused.value.message
    assert "\n" not in refused.value.message
