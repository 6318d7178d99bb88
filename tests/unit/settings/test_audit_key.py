"""The file of the audit key: made once, for its owner only, and refused when it is not."""

from __future__ import annotations

import os
import socket
import stat
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from seqferry.model.errors import ConfigError
from seqferry.settings.audit_key import KeyRing, default_path, key_id


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "audit.key"

    made = KeyRing(path).make()

    assert made is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyRing(path).make() == made == KeyRing(path).signing()
    assert made.secret.hex() not in repr(made)
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    assert KeyRing(tmp_path / "audit.key").signing() is None
    assert list(tmp_path.iterdir()) == []
    assert KeyRing(None).make() is None


def test_a_key_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a file" / "audit.key"
    path.parent.touch()
    ring = KeyRing(path)

    assert [ring.make() for _ in range(3)] == [None] * 3

    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"The audit record is kept without a key: {path} cannot be made (File exists).")


def test_the_first_key_signs_and_the_others_verify(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    path.write_text(f"# rotated\n{'ab' * 32} 2026-01-01T00:00:00+00:00\n\n{'cd' * 32}\n")
    path.chmod(0o600)
    ring = KeyRing(path)

    signing = ring.signing()
    assert signing is not None
    assert signing.id == key_id(bytes.fromhex("ab" * 32))
    assert list(ring.all()) == [signing.id, key_id(bytes.fromhex("cd" * 32))]


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder", "device", "socket"])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path, pipe = tmp_path / "audit.key", tmp_path / "pipe"
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "pipe":
            os.mkfifo(path, 0o600)
        elif kind == "link to a pipe":
            os.mkfifo(pipe, 0o600)
            path.symlink_to(pipe)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to(os.devnull)
        else:
            bound.bind(str(path))
        asked: Future[str] = Future()

        def ask() -> None:
            try:
                asked.set_result(str(KeyRing(path).signing()))
            except ConfigError as why:
                asked.set_result(why.message)

        threading.Thread(target=ask, daemon=True).start()
        told = asked.result(timeout=10)

    assert str(path) in told
    assert "no plain file" in told


def test_a_link_to_a_key_is_followed(tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "audit.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    path.symlink_to(key)

    assert KeyRing(path).signing() is not None


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("", 0o600, "holds no key"),
        ("zz", 0o600, "line 1, is no key"),
        (f"{'ab' * 31}\n", 0o600, "line 1, is no key"),
        (f"{'ab' * 32}\n", 0o640, "chmod 600"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str, mode: int, message: str) -> None:
    path = tmp_path / "audit.key"
    path.write_text(text)
    path.chmod(mode)

    with pytest.raises(ConfigError, match=message) as caught:
        KeyRing(path).all()
    assert "abab" not in caught.value.message


def test_the_key_lies_where_the_configuration_does(tmp_path: Path) -> None:
    assert default_path({}) is None
    assert default_path({"HOME": "/home/ada"}) == Path("/home/ada/.config/seqferry/audit.key")
    assert default_path({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada"}) == Path("/etc/ada/seqferry/audit.key")
    granted = tmp_path / "seqferry-audit-key"
    assert default_path({"HOME": "/h", "CREDENTIALS_DIRECTORY": str(tmp_path)}) != granted
    granted.write_text(f"{'ab' * 32}\n")
    assert default_path({"HOME": "/h", "CREDENTIALS_DIRECTORY": str(tmp_path)}) == granted
    granted.chmod(0o440)
    assert KeyRing(granted).signing() is not None
