"""Errors that no storage is asked for have the form of all: what was done, to which object, why, what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from seqferry.cli.app import COMMANDS, run
from seqferry.engine.native_calls import process_settings
from support.messages import AT_A_STORAGE, check_form

NO_ID: Final = "00000000-0000-4000-8000-000000000000"

# Of each line: the exit code, and what the message has to name.
LINES: Final = [
    ("cp s3:/b/k DST", 2, "s3:/b/k"),
    ("cp TMP/nothing DST", 2, "TMP/nothing"),
    ("cp --part-size x SRCa DST", 2, "--part-size"),
    ("cp --files-from TMP/nothing SRC DST", 2, "TMP/nothing"),
    ("rm SRC", 2, "SRC"),
    ("rm /tmp/x", 2, "/tmp/x"),
    ("run TMP/nothing", 2, "TMP/nothing"),
    ("run TMP/empty", 2, "TMP/empty"),
    ("run TMP/wrong", 2, "TMP/wrong, line 1"),
    ("check SRC TMP/nothing", 2, "TMP/nothing"),
    (f"status {NO_ID}", 1, NO_ID),
    ("status --state sideways", 2, "--state"),
    ("workers --nope", 2, "--nope"),
    ("gateway serve", 2, "[[share]]"),
    ("gateway status --cache nowhere", 1, "nowhere"),
    ("gateway flush --cache nowhere --wait /runs", 1, "nowhere"),
    ("gateway ls --cache nowhere", 2, "PATH"),
    ("cost gateway --disks io9:1", 2, "io9"),
    ("iam-policy s3:/b/k DST", 2, "s3:/b/k"),
    (f"watch {NO_ID}", 1, NO_ID),
    (f"share {NO_ID}", 2, "public_url"),
    (f"label {NO_ID} --name x", 1, NO_ID),
    (f"label {NO_ID}", 2, "--name"),
    (f"pause {NO_ID}", 1, NO_ID),
    ("pause", 2, "transfers"),
    (f"resume {NO_ID}", 1, NO_ID),
    (f"retry {NO_ID}", 1, NO_ID),
    (f"cancel {NO_ID}", 1, NO_ID),
    (f"set {NO_ID} --priority 3", 1, NO_ID),
    (f"set {NO_ID}", 2, "--priority"),
    (f"report {NO_ID}", 1, NO_ID),
    (f"verify {NO_ID}", 1, NO_ID),
    ("prune --older-than soon", 2, "soon"),
    ("ls x", 2, "x"),
    ("cat --range x SRCa", 2, "--range x"),
    ("presign s3://b", 2, "s3://b"),
    ("presign SRCa --expires-in 9d", 2, "--expires-in 9d"),
    ("mb SRCa", 2, "SRCa"),
    ("mb s3://b:c", 2, "b:c"),
    ("rb SRCa", 2, "SRCa"),
    ("cleanup DST --older-than soon", 2, "soon"),
    ("umount TMP", 1, "TMP"),
    ("mounts x", 2, "x"),
    ("serve --port x", 2, "--port"),
    ("worker --max-requests x", 2, "--max-requests"),
    ("demo x y", 2, "x"),
    ("completion tcsh", 2, "tcsh"),
    (f"schedule show {NO_ID}", 1, NO_ID),
    ("audit verify --nonsense", 2, "--nonsense"),
    ("cache verify --cache TMP/nothing", 2, "TMP/nothing"),
    ("token remove nobody", 1, "nobody"),
    ("notify test --nonsense", 2, "--nonsense"),
    ("config check --nonsense", 2, "--nonsense"),
    ("bench transfer --nonsense", 2, "--nonsense"),
    ("doctor --nonsense", 2, "--nonsense"),
    ("nextflow --nonsense", 2, "--nonsense"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose tables the first command makes."""
    return tmp_path_factory.mktemp("state")


@pytest.mark.parametrize(("line", "code", "named"), LINES, ids=[line for line, _, _ in LINES])
def test_an_error_names_its_object_and_a_next_step(
    line: str,
    code: int,
    named: str,
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEQFERRY_STATE_DIR", str(state))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "wrong").write_text("frobnicate SRC DST\n")
    words = {"SRC": "s3://source/run42/", "DST": "s3://target/archive/", "TMP": str(tmp_path)}
    for word, meant in words.items():
        line, named = line.replace(word, meant), named.replace(word, meant)

    assert run(line.split()) == code

    check_form(*capsys.readouterr(), named)


@pytest.mark.parametrize("line", ["ls s3://b", "cp s3://b/k s3://c/", "rm s3://b/k", "head s3://b/k", "mb s3://bbb"])
def test_an_endpoint_where_no_server_listens_is_named(
    line: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEQFERRY_STATE_DIR", str(state))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SEQFERRY_ATTEMPTS", "1")
    # A command sets both for its process, which is that of other tests here.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(process_settings, "attempts", None)

    assert run(line.split()) == 1

    check_form(*capsys.readouterr(), "http://127.0.0.1:9")


def test_each_verb_is_provoked() -> None:
    """Those that only a storage provokes: ``tests/e2e/cli/test_cli_messages.py``."""
    provoked = {line.split()[0] for line, _, _ in LINES}

    # The two speak as the AWS CLI and s5cmd do.
    assert set(COMMANDS) - provoked - AT_A_STORAGE == {"aws", "s5cmd"}
