"""Files of the state folder: nothing is written through what another user has put in their place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.db import worker_lock
from seqferry.model.errors import ConfigError
from seqferry.places import private_files
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
NAMES = ["seqferry.sqlite", "seqferry.sqlite-wal", "worker.lock", "migrate.lock", "endpoints.lock", "tokens.lock"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    found = tmp_path / "victim"
    found.write_text(_PRECIOUS)
    return found


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", [*NAMES, "mount.log"])
def test_a_state_folder_with_something_planted_is_refused(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None], name: str
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    plant(state / name, victim)

    with pytest.raises(ConfigError, match=f"{name} is a link, or no plain file"):
        Settings.load(state_dir=str(state)).prepare_state_dir()

    assert victim.read_text() == _PRECIOUS
    assert not victim.with_name("made").exists()


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
        private_files.opened(tmp_path / "file", flags)

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
    os.close(private_files.opened(file, os.O_RDWR))


def test_a_token_that_is_just_made_has_two_names_for_a_moment(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "token").write_text("x")
    (state / ".token-new").hardlink_to(state / "token")

    Settings.load(state_dir=str(state)).prepare_state_dir()
