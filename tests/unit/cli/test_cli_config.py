"""``seqferry config``: what holds, where it comes from, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqferry.cli.app import run
from seqferry.model.errors import UsageError
from seqferry.settings.config import Settings

FILE = """
database_url = "postgresql://ferry:hunter2@127.0.0.1:9/x"
max_requests = 500
memory = "64MiB"
log_format = "json"

[server]
profiles = ["lab"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    monkeypatch.setenv("SEQFERRY_CONFIG", str(path))
    monkeypatch.setenv("SEQFERRY_STATE_DIR", str(tmp_path / "state"))
    return path


def test_show_tells_where_each_value_comes_from_and_no_secret(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEQFERRY_MEMORY", "32MiB")
    monkeypatch.setenv("SEQFERRY_TOKEN", "hunter2-hunter2-hunter2")

    assert run(["config", "show", "--json"]) == 0

    out = capsys.readouterr().out
    found = {line["name"]: (line["value"], line["origin"]) for line in map(json.loads, out.splitlines())}
    assert found["max_requests"] == (500, f"{file}, line 3")
    assert found["memory"] == (32 * 1024 * 1024, "SEQFERRY_MEMORY")
    assert found["database_url"] == ("postgresql://127.0.0.1:9/x", f"{file}, line 2")
    assert found["max_bandwidth"] == ("off", "default")
    assert found["server.profiles"] == ("lab", str(file))
    assert found["token"] == ("(set, not shown)", "SEQFERRY_TOKEN")
    assert "hunter2" not in out
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert ["max_requests", "500", f"{file},", "line", "3"] in [line.split() for line in shown.splitlines()]


def test_the_environment_wins_over_the_file_and_an_option_over_both(file: Path) -> None:
    environ = {"SEQFERRY_CONFIG": str(file), "SEQFERRY_MAX_REQUESTS": "7"}

    settings = Settings.load(environ)
    given = Settings.load(environ, max_requests=8)

    assert (settings.max_requests, settings.log_format) == (7, "json")
    assert (given.max_requests, given.origins["max_requests"]) == (8, "option")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_requests = 0", "--max-requests"),
        ("\nmax_requests = 'many'", "line 2: 'many'"),
        ("memory = []", "line 1: 'memory' is a text"),
        ("memory = true", "line 1: 'memory' is a text"),
        ("memry = 1", "did you mean 'memory'?"),
        ("log_format = 'xml'", "line 1: 'xml'"),
        ("token = 'hunter2'", "'token' is not known"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(file: Path, text: str, named: str) -> None:
    file.write_text(text)

    with pytest.raises(UsageError) as why:
        Settings.load({"SEQFERRY_CONFIG": str(file)})

    assert named in why.value.message


def test_check_opens_the_database(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("max_requests = 5")

    assert run(["config", "check"]) == 0
    assert str(tmp_path / "state" / "seqferry.sqlite") in capsys.readouterr().out


def test_check_names_all_that_is_wrong(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.chmod(0o644)
    monkeypatch.setenv("SEQFERRY_TOKEN", "short")

    assert run(["config", "check"]) == 1

    said = capsys.readouterr().err
    assert f"chmod 600 {file}" in said
    assert "SEQFERRY_TOKEN" in said
    assert "The database postgresql://127.0.0.1:9/x cannot be used" in said
    assert "hunter2" not in said
