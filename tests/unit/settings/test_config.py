"""Settings from the environment."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import time
from pathlib import Path

import pytest
from sqlalchemy import event

from seqferry.db.database import Database
from seqferry.model.errors import ConfigError, UsageError
from seqferry.settings.config import Settings, default_memory
from seqferry.settings.sizes import Bandwidth, parse_size


def test_the_state_folder_follows_the_conventions_of_the_system() -> None:
    home = Path("~").expanduser()

    assert Settings.load({}).state_dir == home / ".local/state/seqferry"
    assert Settings.load({"XDG_STATE_HOME": "/var/state"}).state_dir == Path("/var/state/seqferry")
    assert Settings.load({"XDG_STATE_HOME": "relative"}).state_dir == home / ".local/state/seqferry"
    assert Settings.load({"XDG_STATE_HOME": "/var/state", "SEQFERRY_STATE_DIR": "/x"}).state_dir == Path("/x")


def test_each_setting_has_a_twin_in_the_environment() -> None:
    settings = Settings.load(
        {
            "SEQFERRY_STATE_DIR": "/x",
            "SEQFERRY_DATABASE_URL": "postgresql://ada@db/work",
            "SEQFERRY_MAX_REQUESTS": "64",
            "SEQFERRY_MEMORY": "1GiB",
            "SEQFERRY_MAX_BANDWIDTH": "200M",
            "SEQFERRY_TPSLIMIT": "25",
            "SEQFERRY_TOKEN": "hunter2",
        }
    )

    assert settings == Settings(
        state_dir=Path("/x"),
        database_url="postgresql+psycopg://ada@db/work",
        max_requests=64,
        memory=1024**3,
        max_bandwidth=Bandwidth(((0, 200 * 1024**2),)),
        tpslimit=25,
        token="hunter2",
    )
    assert not settings.uses_sqlite


@pytest.mark.parametrize(("cores", "mebibytes"), [(1, 96), (2, 96), (4, 192), (6, 256), (96, 256)])
def test_buffers_grow_with_the_cores_within_bounds(cores: int, mebibytes: int) -> None:
    assert default_memory(cores) == mebibytes * 1024**2
    assert Settings.load({}).memory == default_memory()


def test_what_is_given_wins_and_none_is_not_given() -> None:
    environment = {"SEQFERRY_MAX_REQUESTS": "64", "SEQFERRY_TOKEN": "t"}

    settings = Settings.load(environment, max_requests=8, token=None)

    assert (settings.max_requests, settings.token) == (8, "t")


def test_an_empty_variable_counts_as_unset() -> None:
    settings = Settings.load({"SEQFERRY_DATABASE_URL": "", "SEQFERRY_TOKEN": "", "SEQFERRY_MAX_BANDWIDTH": ""})

    assert settings.uses_sqlite
    assert (settings.token, settings.max_bandwidth.now()) == (None, None)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_an_address_of_postgres_gets_the_driver_that_is_there(scheme: str) -> None:
    settings = Settings.load({}, database_url=f"{scheme}://ada:hunter2@db:5432/work?sslmode=require")

    assert settings.database_url == "postgresql+psycopg://ada:hunter2@db:5432/work?sslmode=require"


def test_secrets_are_not_shown() -> None:
    settings = Settings.load({}, database_url="postgresql://ada:hunter2@db:5432/work?x=1", token="s3cret")

    shown = f"{settings!r} {settings} {settings.database_label}"

    assert "hunter2" not in shown
    assert "s3cret" not in shown
    assert settings.database_label == "postgresql://db:5432/work"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MAX_REQUESTS", "many"),
        ("MAX_REQUESTS", "0"),
        ("MAX_REQUESTS", "-1"),
        ("MAX_REQUESTS", "65536"),
        ("MAX_REQUESTS", "9" * 5000),
        ("MEMORY", "999999999999999999T"),
        ("MEMORY", "9" * 400),
        ("MAX_BANDWIDTH", "99999999999999T"),
        ("MEMORY", "1 banana"),
        ("MEMORY", "1MiB"),
        ("MAX_BANDWIDTH", "0"),
        ("MAX_BANDWIDTH", "fast"),
        ("MAX_BANDWIDTH", "50MB/h"),
        ("MAX_BANDWIDTH", "08:00"),
        ("MAX_BANDWIDTH", "08:00,0"),
        ("MAX_BANDWIDTH", "24:00,50MB"),
        ("MAX_BANDWIDTH", "08:00,50MB 18:00"),
        ("MAX_BANDWIDTH", "08:00,50MB 8:00,off"),
        ("MAX_BANDWIDTH", "50MB 60MB"),
        ("MAX_BANDWIDTH", " "),
        ("DATABASE_URL", "mysql://ada:hunter2@db/work"),
        ("DATABASE_URL", "postgresql:/ada:hunter2@db/work"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"SEQFERRY_{name}") as refused:
        Settings.load({f"SEQFERRY_{name}": text})

    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("address", "label"),
    [
        ("postgresql://u:sec?ret@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db"),
        ("postgresql://u:sec/ret@host/db?sslmode=require", "postgresql://host/db"),
        ("postgresql://u:sec#ret@host", "postgresql://host/"),
        ("postgresql://u:secret@[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql:///db?host=/run/postgresql&password=secret", "postgresql:///db"),
        ("postgresql://u:sec,ret@a:1,[::1],c/db?sslmode=require", "postgresql://a:1,[::1]:5432,c:5432/db"),
        ("postgresql://u:1,sec/ret@host/db", "postgresql://host/db"),
        ("postgresql://u:1,sec?ret@host/db", "postgresql://host/db"),
        # What cannot be taken apart is not shown at all.
        ("postgresql://u:secret@host:secret/db", "PostgreSQL"),
        ("postgresql://u:x@secret@host/db", "PostgreSQL"),
        ("postgresql://u:x@sec/ret@host/db", "PostgreSQL"),
        ("postgresql://u@host/of@two", "postgresql://host/of@two"),
    ],
)
def test_the_label_of_the_database_holds_nothing_of_a_password(address: str, label: str) -> None:
    assert Settings.load({}, database_url=address).database_label == label


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:hunter2@host:abc/db",
        "postgresql://u:x@hunter2@host/db",
        "postgresql://u:x@hunter2/y#z@host/db",
        "postgresql://u:hunter2@host/db?foo=bar",
        "postgresql://u:x?hunter2=@host/db?hunter2=1",
    ],
)
def test_an_address_that_makes_no_sense_is_refused_and_not_shown(tmp_path: Path, address: str) -> None:
    settings = Settings.load({}, state_dir=tmp_path, database_url=address)

    with pytest.raises(UsageError, match="SEQFERRY_DATABASE_URL") as refused:
        Database(settings)

    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("address", ["postgresql://a:x,b/db", "postgresql://a,,b/db", "postgresql://a:1:2,b/db"])
def test_hosts_that_make_no_sense_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="SEQFERRY_DATABASE_URL: not a PostgreSQL address"):
        Settings.load({}, database_url=address)


def test_the_line_end_of_a_file_is_no_part_of_a_value() -> None:
    token = "0123456789abcdef"
    read = {"HOST_NAME": "core1\n", "FOLDERS": "/data\r\n", "TOKEN": f"{token}\n", "MEMORY": "64MiB\n", "TRACE": "\n"}

    settings = Settings.load({f"SEQFERRY_{name}": text for name, text in read.items()})

    assert (settings.host_name, settings.folders, settings.token) == ("core1", ("/data",), token)
    assert (settings.memory, settings.trace) == (64 * 1024**2, None)


def test_options_of_postgres_in_the_address_win(tmp_path: Path) -> None:
    address = "postgresql://ada@127.0.0.1:9/work?connect_timeout=2&keepalives_idle=7"

    database = Database(Settings.load({}, state_dir=tmp_path, database_url=address))

    given: dict[str, str] = {}

    @event.listens_for(database.engine, "do_connect")
    def look(_dialect: object, _record: object, _args: object, parameters: dict[str, str]) -> None:
        given.update(parameters)

    with pytest.raises(ConfigError, match="cannot be used"), database.read():
        pass
    assert (given["connect_timeout"], given["keepalives_idle"]) == ("2", "7")
    assert (given["keepalives_interval"], given["keepalives_count"], given["tcp_user_timeout"]) == ("5", "3", "30000")


def test_a_pool_that_is_empty_is_told_as_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(Settings.load({}, state_dir=tmp_path))
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.01)

    with ExitStack() as taken:
        for _ in range(24):  # as many as the pool makes
            taken.enter_context(database.read())
        with pytest.raises(ConfigError, match="all connections of this process are taken"), database.read():
            pass
    with database.read() as connection:
        assert connection.exec_driver_sql("select 1").scalar() == 1
    database.close()


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("off", None),
        ("OFF", None),
        ("50MB", 50_000_000),
        ("50MB/s", 50_000_000),
        ("2MiB/S", 2**21),
        ("50 MB/s", 50_000_000),
    ],
)
def test_one_limit_holds_all_day(text: str, limit: int | None) -> None:
    for hour in (0, 12, 23):
        assert Bandwidth.parse(text).at(time(hour, 59)) == limit


def test_a_timetable_holds_until_its_next_time_and_over_midnight() -> None:
    timetable = Bandwidth.parse("18:30,off 8:00,50MB/s 12:00,1k")

    limits = {clock: timetable.at(time.fromisoformat(clock)) for clock in _CLOCKS}

    assert limits == dict(zip(_CLOCKS, (None, None, 50_000_000, 50_000_000, 1024, 1024, None, None), strict=True))


_CLOCKS = ("00:00", "07:59", "08:00", "11:59", "12:00", "18:29", "18:30", "23:59")


def test_an_empty_state_folder_counts_as_not_given() -> None:
    assert Settings.load({"SEQFERRY_STATE_DIR": "/x"}, state_dir="").state_dir == Path("/x")
    assert Settings.load({"SEQFERRY_STATE_DIR": ""}, state_dir="") == Settings.load({})


def test_an_unknown_setting_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="colour"):
        Settings.load({}, colour="red")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8388608", 8388608),
        ("8M", 8 * 1024**2),
        ("8MiB", 8 * 1024**2),
        ("8mb", 8 * 1000**2),
        ("1.5k", 1536),
        ("2 GiB", 2 * 1024**3),
        ("1T", 1024**4),
        ("7b", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1e6", "1 X", "1MM"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_a_state_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()

    with pytest.raises(ConfigError, match="SEQFERRY_STATE_DIR") as refused:
        Settings.load({}, state_dir=str(in_the_way / "state")).prepare_state_dir()

    assert str(in_the_way / "state") in refused.value.message


def test_a_home_that_is_not_there_is_not_said_to_be_unset() -> None:
    """As of Debian's user ``nobody`` and of containers: HOME is set, to a folder that does not exist."""
    with pytest.raises(ConfigError) as refused:
        Settings.load({"HOME": "/nonexistent"}).prepare_state_dir()

    assert refused.value.message == (
        f"There is no state folder: user {os.getuid()} has no home folder here, and HOME names none that is there. "
        "Name a folder that you may write to with --state-dir or SEQFERRY_STATE_DIR."
    )


def test_the_state_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    settings = Settings.load({}, state_dir=tmp_path / "a" / "state")

    settings.prepare_state_dir()
    settings.prepare_state_dir()

    assert settings.state_dir.stat().st_mode & 0o777 == 0o700
    assert modes(settings.state_dir) == {"seqferry.sqlite": 0o600}


@pytest.mark.parametrize("planted", ["folder", "database"])
def test_a_state_folder_or_database_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o777)
    (state / "seqferry.sqlite").touch()
    us = os.geteuid()
    if us == 0:
        us, other = 65533, 65534
        os.chown(state, other if planted == "folder" else us, -1)
        os.chown(state / "seqferry.sqlite", other if planted == "database" else us, -1)
    elif planted == "folder":
        us += 1
    else:
        pytest.skip("only root can make a file of another user")
    monkeypatch.setattr(os, "geteuid", lambda: us)

    with pytest.raises(ConfigError, match="belongs to the user") as refused:
        Settings.load({}, state_dir=state).prepare_state_dir()

    assert str(state if planted == "folder" else state / "seqferry.sqlite") in refused.value.message


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_files_of_a_state_folder_are_for_their_owner_only_whatever_the_folder_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)  # whatever the umask
    for name in ("seqferry.sqlite", "seqferry.sqlite-wal", "worker.lock", "notes.txt"):
        (state / name).touch()
        (state / name).chmod(0o664)

    for _ in range(2):
        Settings.load({}, state_dir=state).prepare_state_dir()

    ours = dict.fromkeys(("seqferry.sqlite", "seqferry.sqlite-wal", "worker.lock"), 0o600)
    assert modes(state) == {**ours, "notes.txt": 0o664}, "what is not ours stays"
    assert state.stat().st_mode & 0o777 == 0o755
    (told,) = [record.getMessage() for record in caplog.records]
    assert "seqferry.sqlite-wal and worker.lock" in told
    assert str(state) in told
