"""Files that people write, as editors and shells of Windows write them: with a byte order mark, also in UTF-16."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.cli.commands import run as run_command
from seqferry.model.encoding import decode
from seqferry.model.errors import ConfigError
from seqferry.places import customer_keys, profiles
from seqferry.settings import audit_key
from seqferry.settings.audit_key import KeyRing
from seqferry.settings.config import Settings
from seqferry.spec.key_lists import read

Encode = Callable[[str], bytes]

_ENCODINGS: dict[str, Encode] = {
    "UTF-8": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16LE": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16BE": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
}


@pytest.fixture(params=_ENCODINGS)
def encoded(request: pytest.FixtureRequest) -> Encode:
    return _ENCODINGS[request.param]


def test_a_configuration_file_is_read(encoded: Encode, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(encoded("memory = '64MiB'\r\n[server]\r\nprofiles = ['lab']\r\n"))

    settings = Settings.load({"SEQFERRY_CONFIG": str(tmp_path / "config.toml")})

    assert (settings.memory, settings.policy.profiles) == (64 * 1024**2, ("lab",))


def test_files_of_the_aws_tools_are_read(encoded: Encode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_bytes(encoded("[default]\r\nregion = eu-central-1\r\n"))
    (tmp_path / "credentials").write_bytes(encoded("[default]\r\naws_access_key_id = AKIA\r\n"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    assert profiles.settings("default") == {"region": "eu-central-1", "aws_access_key_id": "AKIA"}


def test_lists_of_keys_and_of_commands_are_read(encoded: Encode, tmp_path: Path) -> None:
    (tmp_path / "commands").write_bytes(encoded("cp s3://b/größe s3://c/\n"))

    assert [row.key for row in read(encoded("größe\r\nx\r\n"), "list", "lines")] == ["größe", "x"]
    assert [row.key for row in read(encoded("key,version_id\r\na,v\r\n"), "list.csv", "csv")] == ["a"]
    assert run_command._read(str(tmp_path / "commands"), "commands") == "cp s3://b/größe s3://c/\n"  # pyright: ignore[reportPrivateUsage]


def test_keys_are_read(encoded: Encode, tmp_path: Path) -> None:
    (tmp_path / "audit.key").write_bytes(encoded(f"{'0f' * 32}\r\n"))
    (tmp_path / "audit.key").chmod(0o600)
    (tmp_path / "sse-c").write_bytes(encoded("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\r\n"))

    assert list(KeyRing(tmp_path / "audit.key").all()) == [audit_key.key_id(bytes.fromhex("0f" * 32))]
    assert customer_keys._read(f"file:{tmp_path / 'sse-c'}") == b"0123456789abcdef0123456789abcdef"  # pyright: ignore[reportPrivateUsage]


def test_what_its_mark_does_not_say_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "audit.key").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "audit.key").chmod(0o600)

    with pytest.raises(UnicodeDecodeError):
        decode(codecs.BOM_UTF16_LE + b"\x00")
    with pytest.raises(ConfigError, match="line 1, is no key"):
        KeyRing(tmp_path / "audit.key").all()
