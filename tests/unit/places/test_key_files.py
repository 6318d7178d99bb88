"""Keys in files of s3fs."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.model.errors import ConfigError
from seqferry.places import key_files


def _file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "passwd"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_key_of_a_bucket_comes_before_the_one_for_all(tmp_path: Path) -> None:
    path = _file(tmp_path, "# keys\n\nAKONE:secret/one+1=\nreads:AKTWO:two\r\n")

    assert key_files.key_of(path, "other") == ("AKONE", "secret/one+1=")
    found = key_files.key_of(path, "reads")
    assert found.environment() == {
        "AWS_ACCESS_KEY_ID": "AKTWO",
        "AWS_SECRET_ACCESS_KEY": "two",
        "AWS_SESSION_TOKEN": "",
        "AWS_PROFILE": "",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AKONE\n", "line 1: it is not KEY:SECRET"),
        ("\nAKONE:\n", "line 2: it is not"),
        ("AK ONE:hidden\n", "line 1"),
        ("other:AKONE:hidden\n", "no key for the bucket reads"),
        ("", "no key for the bucket"),
    ],
)
def test_what_holds_no_key_is_named_and_not_shown(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        key_files.key_of(_file(tmp_path, text), "reads")
    assert "AK" not in refused.value.message
    assert "hidden" not in refused.value.message


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        key_files.key_of(_file(tmp_path, "AK:secret\n", mode), "reads")


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "no plain file|folder"), (tmp_path / "none", "No such file")):
        with pytest.raises(ConfigError, match=said):
            key_files.key_of(path, "reads")
    binary = _file(tmp_path, "")
    binary.write_bytes(b"\xff\xfe:")
    with pytest.raises(ConfigError, match="no text"):
        key_files.key_of(binary, "reads")
