"""Modules that a short command imports. Imports are most of its time; their number depends on no machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from support.processes import seqferry
from support.servers import S3Server
from support.waiting import eventually

_HEAVY = {"dbos", "fastapi", "pydantic", "rich", "alembic", "httpx"}
_IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


def _modules(words: list[str], server: S3Server, state: Path) -> set[str]:
    """Modules that the command imports, beside those that each start of Python does."""
    environment = {
        **os.environ,
        **server.environment(),
        "SEQFERRY_STATE_DIR": str(state),
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    command = [str(seqferry()), *words]
    done = subprocess.run(command, capture_output=True, env=environment, text=True, timeout=120, check=False)
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "import time" not in line)
    return set(_IMPORTED.findall(done.stderr))


@pytest.mark.parametrize(
    ("line", "most", "ours", "absent"),
    [
        ("cp s3://BUCKET/a TARGET", 540, 193, {*_HEAVY, "seqferry.proof.auditing", "seqferry.db.record.audit"}),
        ("status", 459, 114, {*_HEAVY, "seqferry._native"}),
        ("ls s3://BUCKET/", 247, 75, {"sqlalchemy", "pydantic", "rich"}),
        ("cat --range 0-3 s3://BUCKET/a", 266, 88, {"sqlalchemy", "pydantic", "rich"}),
        ("aws s3 ls s3://BUCKET/", 212, 78, {"sqlalchemy", "typer", "pydantic"}),
        ("aws s3 cp s3://BUCKET/a TARGET", 213, 78, {"sqlalchemy", "typer", "pydantic"}),
        ("s5cmd cp s3://BUCKET/a TARGET", 214, 78, {"sqlalchemy", "typer", "pydantic"}),
        ("--version", 143, 6, {"sqlalchemy", "typer", "seqferry.settings.config"}),
    ],
)
def test_a_command_imports_what_its_verb_needs(
    line: str,
    most: int,
    ours: int,
    absent: set[str],
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    tmp_path: Path,
) -> None:
    bucket = make_bucket(versitygw)
    versitygw.client().put_object(Bucket=bucket, Key="a", Body=b"hello")
    words = line.replace("BUCKET", bucket).replace("TARGET", str(tmp_path / "a")).split()
    if words[0] in ("cp", "status"):
        # The tables are made by the first command.
        _modules(["cp", f"s3://{bucket}/a", str(tmp_path / "first")], versitygw, tmp_path / "state")

    found = _modules(words, versitygw, tmp_path / "state")

    of_ours = {name for name in found if name.partition(".")[0] == "seqferry"}
    print(f"{line}: {len(found)} modules, {len(of_ours)} of them ours")
    assert not absent & found
    assert len(of_ours) <= ours, sorted(of_ours)
    assert len(found) <= most, sorted(found)


def test_a_short_command_does_not_read_the_tables_of_the_configuration_file(
    versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[server]\nprofiles = ["lab"]\n[[limit]]\nplace = "s3://a"\ntpslimit = 5\n')
    monkeypatch.setenv("SEQFERRY_CONFIG", str(file))

    bucket = make_bucket(versitygw)
    versitygw.client().put_object(Bucket=bucket, Key="a", Body=b"hello")

    listed = _modules(["ls", f"s3://{bucket}/"], versitygw, tmp_path / "state")
    shown = _modules(["config", "show"], versitygw, tmp_path / "state")

    assert "tomllib" in listed
    assert not {"pydantic", "pydantic_core", "seqferry.settings.server_table"} & listed
    assert "pydantic" in shown


def test_serve_answers_before_it_brings_up_its_queue(versitygw: S3Server, tmp_path: Path) -> None:
    _modules(["schedule", "list"], versitygw, tmp_path / "state")  # makes the tables
    environment = {**os.environ, **versitygw.environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    environment["SEQFERRY_STATE_DIR"] = str(tmp_path / "state")
    log = tmp_path / "log"
    command = [str(seqferry()), "serve", "--port", "0"]
    with log.open("wb") as errors:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True)
    assert running.stdout is not None
    try:
        url = running.stdout.readline().strip()
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        eventually(lambda: "dbos" in _IMPORTED.findall(log.read_text()), what="the queue")
    finally:
        running.terminate()
        assert running.wait(60) == 0, log.read_text()
        running.stdout.close()

    said = log.read_text()
    before = set(_IMPORTED.findall(said[: said.index("listening on")]))
    print(f"serve: {len(before)} modules before it listens")
    found = {"dbos", "psycopg", "rich", "alembic"} & before
    assert not found, found
    assert len(before) <= 910, sorted(before)
