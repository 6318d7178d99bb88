"""Errors of each verb have one form: what was done, to which object, why, and what to do next."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cli_process import Cli, CliResult, Places

from support.messages import AT_A_STORAGE, check_form
from support.proxy import Proxy, access_denied
from support.servers import S3Server

NO_BUCKET: Final = "s3://no-such-bucket-at-all"

# Of each line: the exit code, and what the message has to name. SRC and DST are prefixes in buckets of ``mover``,
# DENIED a prefix of objects that ``mover`` may do nothing with, CLOSED a bucket that it may not list.
LINES: Final = [
    (f"cp {NO_BUCKET}/k DST", 1, NO_BUCKET),
    ("cp SRCnothing DST", 2, "SRCnothing"),
    ("cp DENIEDx DST", 1, "DENIEDx"),
    ("cp SRCnothing -", 1, "SRCnothing"),
    (f"sync SRC {NO_BUCKET}/k/", 1, NO_BUCKET),
    ("sync CLOSED DST", 1, "CLOSED"),
    ("mv SRCnothing DST", 2, "SRCnothing"),
    ("mv DENIEDx DST", 1, "DENIEDx"),
    ("rm SRCnothing", 2, "SRCnothing"),
    (f"rm {NO_BUCKET}/x", 1, NO_BUCKET),
    ("check CLOSED DST", 1, "CLOSED"),
    ("check SRCnothing DST", 2, "SRCnothing"),
    (f"pack SRC {NO_BUCKET}/x.tar", 1, NO_BUCKET),
    ("unpack SRCnothing.tar DST", 2, "SRCnothing.tar"),
    ("unpack DENIEDx DST", 1, "DENIEDx"),
    (f"preflight {NO_BUCKET}/k DST", 1, NO_BUCKET),
    (f"ls {NO_BUCKET}", 1, NO_BUCKET),
    ("ls CLOSED", 1, "CLOSED"),
    ("du CLOSED", 1, "CLOSED"),
    (f"du {NO_BUCKET}", 1, NO_BUCKET),
    ("cat SRCnothing", 1, "SRCnothing"),
    ("cat --range 0-1 DENIEDx", 1, "DENIEDx"),
    ("cat SRC*.gx", 4, "SRC*.gx"),
    ("head SRCnothing", 1, "SRCnothing"),
    ("head DENIEDx", 1, "DENIEDx"),
    (f"head {NO_BUCKET}/x", 1, NO_BUCKET),
    ("rb CLOSED --force", 1, "CLOSED"),
    (f"cleanup {NO_BUCKET}", 1, NO_BUCKET),
    (f"mount {NO_BUCKET} TMP/mnt", 1, NO_BUCKET),
    ("tar ls SRCnothing.tar", 1, "SRCnothing.tar"),
    ("tar verify DENIEDx", 1, "DENIEDx"),
]


def _check_form(ran: CliResult, code: int, named: str) -> None:
    assert ran.code == code, ran.err
    check_form(ran.out, ran.err, named)


@pytest.fixture
def words(places: Places, make_bucket: Callable[..., str], tmp_path: Path) -> dict[str, str]:
    places.fill(["a", "denied/x"])
    places.server.deny(places.source, "run42/denied/*")
    closed = make_bucket(places.server)
    places.server.allow_only(closed, "s3:PutObject")
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "wrong").write_text("frobnicate SRC DST\n")
    source, target = places.uris
    return {
        "DENIED": f"{source}denied/",
        "CLOSED": f"s3://{closed}",
        "SRC": source,
        "DST": target,
        "TMP": str(tmp_path),
    }


def _typed(line: str, words: dict[str, str]) -> str:
    for word, meant in words.items():
        line = line.replace(word, meant)
    return line


@pytest.mark.every_server
def test_each_error_names_its_object_and_a_next_step(cli: Cli, words: dict[str, str]) -> None:
    wrong: list[str] = []
    for line, code, named in LINES:
        ran = cli.run(*_typed(line, words).split())
        try:
            _check_form(ran, code, _typed(named, words))
        except AssertionError as why:
            wrong.append(f"{line}\n    {why}\n    {ran.code}: {ran.err.strip()}")

    assert not wrong, "\n" + "\n".join(wrong)


def test_an_unknown_token_is_told_where_no_state_folder_is_as_well(cli: Cli) -> None:
    shutil.rmtree(cli.state)
    _check_form(cli.run("token", "remove", "nobody"), 1, "nobody")


def test_each_verb_of_a_storage_is_provoked() -> None:
    assert {line.split()[0] for line, _, _ in LINES} >= AT_A_STORAGE


@pytest.mark.every_server
def test_a_key_that_nobody_knows_is_told(cli: Cli, places: Places) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "moversecret"}

    _check_form(cli.run("ls", places.uris[0], env=environment), 1, f"s3://{places.source}")


def test_a_refused_request_about_a_bucket_names_its_permission(
    cli: Cli, s3server: S3Server, subtests: pytest.Subtests
) -> None:
    with Proxy(s3server) as proxy:
        cli.server = proxy.server
        for operation, line, advice in (
            ("CreateBucket", "mb s3://some-bucket", "Give these credentials s3:CreateBucket, or choose another name"),
            ("DeleteBucket", "rb s3://some-bucket", "Give these credentials s3:DeleteBucket"),
            ("ListBuckets", "ls", "Give these credentials s3:ListAllMyBuckets"),
        ):
            with subtests.test(line):
                proxy.rule(operation, access_denied())

                ran = cli.run(*line.split())

                _check_form(ran, 1, f"{operation} s3://")
                assert advice in ran.err


@pytest.mark.every_server
def test_a_bucket_that_others_have_or_that_is_refused_is_told(cli: Cli, s3server: S3Server) -> None:
    cli.server = s3server
    name = f"of-admin-{uuid.uuid4().hex[:12]}"
    client: Any = s3server.client()
    client.create_bucket(Bucket=name)

    made = cli.run("mb", f"s3://{name}")
    again = cli.run("mb", f"s3://{name}", env=s3server.environment(s3server.admin))
    client.put_object(Bucket=name, Key="a", Body=b"")
    full = cli.run("rb", f"s3://{name}", env=s3server.environment(s3server.admin))

    s3server.delete_bucket(name)
    # SeaweedFS says first that this identity makes no buckets.
    refused = "s3:CreateBucket" if s3server.kind == "seaweedfs" else "perhaps by another account"
    _check_form(made, 1, f"s3://{name}")
    assert refused in made.err
    assert "choose another name" in made.err
    _check_form(again, 1, f"s3://{name}")
    assert "run the same command again" not in again.err.lower()
    _check_form(full, 1, f"s3://{name}")
    assert full.err.strip().endswith(f"seqferry rb --force s3://{name}")


def test_failures_of_a_removal_are_told_as_such(cli: Cli, places: Places) -> None:
    places.fill(["a"])
    places.server.deny(places.source, "run42/*", actions=("s3:DeleteObject", "s3:DeleteObjectVersion"))

    ran = cli.run("rm", "-r", places.uris[0])

    assert ran.code == 1
    assert "s3:DeleteObject" in ran.err
    assert ran.err.count("seqferry retry ") == ran.err.count("Next: ") == 1
    assert "run the same" not in ran.err
    assert "skipped" not in ran.err
    assert "Copy" not in ran.err.replace("CopyObject", "")
