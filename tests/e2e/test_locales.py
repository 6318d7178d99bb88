"""Names of files and keys in locales that are not UTF-8: they are bytes, and none changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import seqferry
from support.run import Run
from support.servers import S3Server

_NAME = "Größe_日本.txt"

_LOCALES = {"latin-1": ("de_DE", "ISO-8859-1"), "EUC-JP": ("ja_JP", "EUC-JP"), "POSIX": None}
"""The last one without what Python does by itself: taking UTF-8 in place of ASCII."""


@pytest.fixture(params=_LOCALES)
def locale(request: pytest.FixtureRequest, run: Run) -> dict[str, str]:
    """The environment of a locale."""
    wanted = _LOCALES[request.param]
    if wanted is None:
        return {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if shutil.which("localedef") is None or not Path("/usr/share/i18n/charmaps", f"{wanted[1]}.gz").exists():
        pytest.skip("the sources of locales are not there (Debian: apt-get install locales)")

    def make() -> dict[str, str]:
        folder = run.folder / "locales"
        folder.mkdir(exist_ok=True)
        made = folder / f"{wanted[0]}.{wanted[1]}"
        # 1: with warnings.
        done = subprocess.run(
            ["localedef", "-i", wanted[0], "-f", wanted[1], made], capture_output=True, check=False, timeout=120
        )
        assert done.returncode in (0, 1), done.stderr
        return {"LOCPATH": str(folder), "LC_ALL": made.name}

    return run.once(f"locale-{request.param}", make)


def _ran(server: S3Server, locale: dict[str, str], cwd: Path, *words: str | bytes) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **server.environment(), **locale}
    return subprocess.run(
        [seqferry(), *words], cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("locale", "tool"),
    [("latin-1", []), ("EUC-JP", ["aws", "s3"]), ("POSIX", ["s5cmd"])],
    indirect=["locale"],
    ids=["seqferry", "aws", "s5cmd"],
)
def test_a_name_arrives_as_it_is(
    tool: list[str],
    locale: dict[str, str],
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    tmp_path: Path,
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / _NAME).write_text("content")

    up = _ran(versitygw, locale, tmp_path, *tool, "cp", _NAME, f"s3://{bucket}/{_NAME}")
    down = _ran(versitygw, locale, tmp_path, *tool, "cp", f"s3://{bucket}/{_NAME}", f"again_{_NAME}")
    listed = _ran(versitygw, locale, tmp_path, *tool, "ls", f"s3://{bucket}/")

    assert (up.returncode, down.returncode) == (0, 0), up.stderr + down.stderr
    stored = versitygw.client(versitygw.user).list_objects_v2(Bucket=bucket)["Contents"]
    assert [one["Key"] for one in stored] == [_NAME]
    assert (tmp_path / f"again_{_NAME}").read_text() == "content"
    assert listed.stdout.endswith(f" {_NAME}\n")


def test_folders_and_lists_keep_names(
    locale: dict[str, str], versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / "größe").mkdir()
    (tmp_path / "größe" / _NAME).write_text("content")
    (tmp_path / "list").write_text(f"{_NAME}\n", encoding="utf-8")

    up = _ran(versitygw, locale, tmp_path, "cp", "--files-from", "list", "größe", f"s3://{bucket}/")
    down = _ran(versitygw, locale, tmp_path, "cp", f"s3://{bucket}/*.txt", "zurück")
    listed = _ran(versitygw, locale, tmp_path, "ls", f"s3://{bucket}/")
    status = _ran(versitygw, locale, tmp_path, "status", "--json")

    assert (up.returncode, down.returncode, status.returncode) == (0, 0, 0), up.stderr + down.stderr
    stored = versitygw.client(versitygw.user).list_objects_v2(Bucket=bucket)["Contents"]
    assert [one["Key"] for one in stored] == [_NAME]
    assert listed.stdout.endswith(f" {_NAME}\n")
    assert (tmp_path / "zurück" / _NAME).read_text() == "content"


def test_a_name_that_is_not_utf8_is_named_and_never_changed(
    locale: dict[str, str], versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / "d").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "d") + b"/\xfc.txt")).write_text("content")

    alone = _ran(versitygw, locale, tmp_path, "cp", b"d/\xfc.txt", f"s3://{bucket}/")
    key = _ran(versitygw, locale, tmp_path, "cp", "list", os.fsencode(f"s3://{bucket}/") + b"\xfc.txt")
    below = _ran(versitygw, locale, tmp_path, "cp", "d", f"s3://{bucket}/")

    assert (alone.returncode, key.returncode, below.returncode) == (2, 2, 1)
    assert r"d/\xfc.txt' is not valid UTF-8" in alone.stderr
    assert "is not valid UTF-8" in key.stderr or "Cannot read 'list'" in key.stderr
    assert r"\xfc.txt" in below.stderr
    assert versitygw.client(versitygw.user).list_objects_v2(Bucket=bucket)["KeyCount"] == 0
