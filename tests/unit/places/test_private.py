"""Files of the state folder: nothing is written through what another user has put in their place."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from seqferry.db import worker_lock
from seqferry.model.errors import ConfigError
from seqferry.places import private_files
from seqferry.settings import tokens
from seqferry.settings.config import Settings
from seqferry.settings.scratch import scratch_folder

_PRECIOUS = "not to be changed"


def _symlink(at: Path, victim: Path) -> None:
    at.symlink_to(victim)


def _dangling(at: Path, victim: Path) -> None:
    at.symlink_to(victim.with_name("made"))


def _hard_link(at: Path, victim: Path) -> None:
    at.hardlink_to(victim)


def _fifo(at: Path, _victim: Path) -> None:
    os.mkfifo(at)


def _folder(at: Path, _victim: Path) -> None:
    at.mkdir()


PLANTS: list[Callable[[Path, Path], None]] = [_symlink, _dangling, _hard_link, _fifo, _folder]
NAMES = ["seqferry.sqlite", "seqferry.sqlite-wal", "worker.lock", "migrate.lock", "tokens.lock"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    found = tmp_path / "victim"
    found.write_text(_PRECIOUS)
    return found


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", [*NAMES, "mount.log", "token"])
def test_a_state_folder_with_something_planted_is_refused(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None], name: str
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    plant(state / name, victim)

    with pytest.raises(ConfigError, match=f"{name} is a link, or no plain file"):
        Settings.load(state_dir=str(state)).prepare_state_dir()

    assert victim.read_text() == _PRECIOUS
    assert victim.stat().st_mode & 0o777 == 0o644
    assert not victim.with_name("made").exists()


@pytest.mark.parametrize("name", [*NAMES, "mount.log", "token"])
def test_what_is_planted_after_the_check_keeps_its_permissions(tmp_path: Path, victim: Path, name: str) -> None:
    (tmp_path / name).hardlink_to(victim)

    with pytest.raises(OSError, match="it is a link") as refused:
        private_files.restrict_permissions(tmp_path)

    assert Path(refused.value.filename) == tmp_path / name
    assert victim.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("plant", [_symlink, _hard_link])
def test_a_planted_token_is_neither_read_nor_made_private(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(tmp_path / "token", victim)

    with pytest.raises(ConfigError, match=r"token: it is a link"):
        tokens.owner_token(tmp_path)

    assert victim.stat().st_mode & 0o777 == 0o644


def test_files_of_ours_are_made_private_and_the_locks_of_a_database_stay(tmp_path: Path) -> None:
    state = tmp_path / "state"
    settings = Settings.load(state_dir=str(state))
    settings.prepare_state_dir()
    settings.sqlite_path.chmod(0o644)
    with closing(sqlite3.connect(settings.sqlite_path, isolation_level=None)) as writer:
        writer.execute("begin immediate")

        assert "seqferry.sqlite" in private_files.restrict_permissions(state)

        # Another process finds the lock of this one: a closed descriptor would have dropped it.
        tried = subprocess.run(
            [sys.executable, "-c", _WRITE, str(settings.sqlite_path)], capture_output=True, text=True
        )
        assert "database is locked" in tried.stderr
    assert settings.sqlite_path.stat().st_mode & 0o777 == 0o600


_WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('begin immediate')"


def test_processes_that_start_at_once_make_one_token_with_one_name(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: tokens.owner_token(tmp_path), range(32)))

    assert len(made) == 1
    assert (tmp_path / "token").stat().st_nlink == 1


@pytest.mark.parametrize("name", ["pipes", "scratch"])
def test_a_folder_of_the_state_folder_that_is_a_link_is_refused(tmp_path: Path, name: str) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    state.mkdir()
    outside.mkdir()
    (state / name).symlink_to(outside)

    with pytest.raises(ConfigError, match=f"{name} is a link"):
        Settings.load(state_dir=str(state)).prepare_state_dir()
    if name == "scratch":
        with pytest.raises(OSError, match="symbolic links"), scratch_folder(state, "x"):
            pass
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_what_is_planted_after_the_check_is_not_opened(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None], flags: int
) -> None:
    plant(tmp_path / "file", victim)

    with pytest.raises(OSError, match=r"it is a link|No such"):
        private_files.open_private(tmp_path / "file", flags)

    assert victim.read_text() == _PRECIOUS
    assert not victim.with_name("made").exists()


def test_a_pipe_in_place_of_the_workers_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "worker.lock")

    assert worker_lock.is_held(tmp_path), "it cannot be seen whether a worker is there"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_no_file_of_ours(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "folder" / "file"
    folder.mkdir()
    file.touch()
    os.chown(folder, 65534, 65534)

    assert not private_files.is_own_folder(folder)
    os.chown(file, 65534, 65534)
    # Root may use it, as in a container with a folder of the host.
    os.close(private_files.open_private(file, os.O_RDWR))
