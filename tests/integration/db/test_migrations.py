"""Tables are created once on both databases, whichever process comes first."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import later
import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from control import ANY_SPEC

import seqferry.db
from seqferry.cli.app import run
from seqferry.db.database import Database
from seqferry.db.migrate import HEAD, INITIAL, VERSION_TABLE, migrate, oldest_reader, require_current
from seqferry.db.tables import complete
from seqferry.dbos.queue import Queue
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess

pytestmark = pytest.mark.every_database


def _opened(empty_settings: Settings) -> Database:
    empty_settings.prepare_state_dir()
    database = Database(empty_settings)
    migrate(empty_settings, database, Queue(database))
    return database


def test_the_migrations_make_the_tables_that_the_code_knows(empty_settings: Settings) -> None:
    database = _opened(empty_settings)
    tables = complete()

    with database.write() as connection:
        made = _describe(connection)
        connection.exec_driver_sql("drop view seqferry_autoscale")
        tables.drop_all(connection)
        tables.create_all(connection)
        known = _describe(connection)
    database.close()

    assert made == known
    assert set(made) == set(tables.tables)


def _describe(connection: sa.Connection) -> dict[str, Any]:
    """Our tables as the database has them: columns with types, collations and defaults, keys, references, indexes."""
    found = sa.inspect(connection)
    return {name: _describe_table(found, name) for name in found.get_table_names() if name in complete().tables}


def _describe_table(found: sa.Inspector, name: str) -> dict[str, Any]:
    columns = {one["name"]: (repr(one["type"]), one["nullable"], one["default"]) for one in found.get_columns(name)}
    indexes = {
        one["name"]: (
            one["column_names"],
            {option: str(value) for option, value in one.get("dialect_options", {}).items()},
        )
        for one in found.get_indexes(name)
    }
    return {
        "columns": columns,
        "key": found.get_pk_constraint(name)["constrained_columns"],
        "references": [(one["constrained_columns"], one["referred_table"]) for one in found.get_foreign_keys(name)],
        "unique": sorted(one["column_names"] for one in found.get_unique_constraints(name)),
        "indexes": indexes,
    }


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
    migrate(empty_settings, database, Queue(database))
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


@pytest.mark.parametrize("revision", ["0001", "0027"])
def test_a_database_of_a_build_before_the_first_release_is_refused_in_one_line(
    empty_settings: Settings, revision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = _opened(empty_settings)
    with database.write() as connection:
        connection.execute(sa.text(f"update {VERSION_TABLE} set version_num = '{revision}'"))
        connection.execute(sa.text("delete from schema_note where about = 'oldest reader'"))
    other = "state folder" if database.is_sqlite else "database"
    refusal = f"before its first release, which this version cannot upgrade: give another {other}, and read this one"

    with pytest.raises(ConfigError, match=refusal):
        require_current(database)
    environment = {} if empty_settings.database_url is None else {"SEQFERRY_DATABASE_URL": empty_settings.database_url}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        assert run(["status", "--state-dir", str(empty_settings.state_dir)]) == 1
    said = capsys.readouterr()

    assert refusal in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    with database.read() as connection:
        assert connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar() == revision
    database.close()


def test_a_database_of_an_earlier_version_that_cannot_be_written_is_not_upgraded(empty_settings: Settings) -> None:
    database = _opened(empty_settings)

    with later.version(), pytest.raises(ConfigError, match="made by an earlier version of seqferry, and its folder"):
        require_current(database)
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
        if file.name[1:5] == INITIAL:
            continue
        text = file.read_text()
        assert re.search(r"^contracts = (True|False)$", text, re.MULTILINE), file.name
        added = "\n".join(line for line in text.splitlines() if "op.add_column" in line or "op." in line)
        assert "contracts = True" in text or not _CONTRACTING.search(added), file.name


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
