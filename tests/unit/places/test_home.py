"""The home folder of a user, and paths that name one."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from seqferry.places import home

_OWN = pwd.getpwuid(os.getuid())


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"HOME": "/home/ada"}, "/home/ada"),
        ({"HOME": "relative"}, _OWN.pw_dir),
        ({"HOME": ""}, _OWN.pw_dir),
        ({}, _OWN.pw_dir),
    ],
)
def test_the_home_folder_is_that_of_the_environment_else_of_the_user_database(env: dict[str, str], folder: str) -> None:
    assert home.folder(env) == folder


def test_a_user_without_an_entry_has_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)

    assert home.folder({}) is None
    with pytest.raises(ValueError, match="no home folder here"):
        home.expand("~/x", {})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("~", "/home/ada"),
        ("~/state", "/home/ada/state"),
        ("~/", "/home/ada"),
        ("/var/~/x", "/var/~/x"),
        ("/var/state", "/var/state"),
        (f"~{_OWN.pw_name}/x", f"{_OWN.pw_dir.rstrip('/')}/x"),
        (f"~{_OWN.pw_name}", _OWN.pw_dir),
    ],
)
def test_a_tilde_is_the_home_folder_at_the_start_only(text: str, path: str) -> None:
    assert home.expand(text, {"HOME": "/home/ada"}) == Path(path)


def test_a_relative_path_is_below_the_folder_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert home.expand("a/b", {}) == tmp_path / "a/b"


def test_a_file_that_begins_with_a_tilde_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "~backup").mkdir()
    monkeypatch.chdir(tmp_path)

    assert home.expand("~backup/x", {}) == tmp_path / "~backup/x"


def test_a_user_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no user no-such-user here"):
        home.expand("~no-such-user/x", {"HOME": "/home/ada"})


def test_a_folder_of_this_user_is_shut_by_no_other(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()

    assert not home.is_denied_by_other_user(tmp_path / "open/new/file")
