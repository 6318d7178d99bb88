"""Errors of each verb have one form: what was done, to which object, why, and what to do next."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cli_process import Cli, CliResult, Places

from support.proxy import Proxy, access_denied
from support.servers import S3Server

NO_ID: Final = "00000000-0000-4000-8000-000000000000"
NO_BUCKET: Final = "s3://no-such-bucket-at-all"

NEXT: Final = re.compile(
    r"\bseqferry [a-z-]+|did you mean|nearest: |name (?:a|an|its|one|the)\b|cp, mv and rm can|allows up to|"
    r"[Ww]rite |[Gg]ive |[Cc]heck |[Cc]hoose |[Ll]ook |[Cc]orrect |[Ss]ay |[Aa]dd |list the source again"
)
"""What begins a next step."""

DOUBLED: Final = re.compile(r"\.\.(?!\.)(?<!\.\.\.)|\.:|: \.|\?\.|,\.|;\.|\.;|: :|  ")

# Of each line: the exit code, and what the message has to name. SRC and DST are prefixes in buckets of ``mover``,
# DENIED a prefix of objects that ``mover`` may do nothing with, CLOSED a bucket that it may not list.
LINES: Final = [
    ("cp s3:/b/k DST", 2, "s3:/b/k"),
    (f"cp {NO_BUCKET}/k DST", 1, NO_BUCKET),
    ("cp SRCnothing DST", 2, "SRCnothing"),
    ("cp DENIEDx DST", 1, "DENIEDx"),
    ("cp TMP/nothing DST", 2, "TMP/nothing"),
    ("cp --part-size x SRCa DST", 2, "--part-size"),
    ("cp SRCnothing -", 1, "SRCnothing"),
    ("cp --files-from TMP/nothing SRC DST", 2, "TMP/nothing"),
    (f"sync SRC {NO_BUCKET}/k/", 1, NO_BUCKET),
    ("sync CLOSED DST", 1, "CLOSED"),
    ("mv SRCnothing DST", 2, "SRCnothing"),
    ("mv DENIEDx DST", 1, "DENIEDx"),
    ("rm SRCnothing", 2, "SRCnothing"),
    ("rm SRC", 2, "SRC"),
    ("rm /tmp/x", 2, "/tmp/x"),
    (f"rm {NO_BUCKET}/x", 1, NO_BUCKET),
    ("run TMP/nothing", 2, "TMP/nothing"),
    ("run TMP/empty", 2, "TMP/empty"),
    ("run TMP/wrong", 2, "TMP/wrong, line 1"),
    ("check SRC TMP/nothing", 2, "TMP/nothing"),
    ("check CLOSED DST", 1, "CLOSED"),
    ("check SRCnothing DST", 2, "SRCnothing"),
    (f"pack SRC {NO_BUCKET}/x.tar", 1, NO_BUCKET),
    ("unpack SRCnothing.tar DST", 2, "SRCnothing.tar"),
    ("unpack DENIEDx DST", 1, "DENIEDx"),
    (f"status {NO_ID}", 1, NO_ID),
    ("status --state sideways", 2, "--state"),
    ("workers --nope", 2, "--nope"),
    ("gateway serve", 2, "[[share]]"),
    ("gateway status --cache nowhere", 1, "nowhere"),
    ("gateway flush --cache nowhere --wait /runs", 1, "nowhere"),
    ("gateway ls --cache nowhere", 2, "PATH"),
    ("cost gateway --disks io9:1", 2, "io9"),
    (f"preflight {NO_BUCKET}/k DST", 1, NO_BUCKET),
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
    (f"ls {NO_BUCKET}", 1, NO_BUCKET),
    ("ls CLOSED", 1, "CLOSED"),
    ("ls x", 2, "x"),
    ("du CLOSED", 1, "CLOSED"),
    (f"du {NO_BUCKET}", 1, NO_BUCKET),
    ("cat SRCnothing", 1, "SRCnothing"),
    ("cat --range x SRCa", 2, "--range x"),
    ("cat --range 0-1 DENIEDx", 1, "DENIEDx"),
    ("cat SRC*.gx", 4, "SRC*.gx"),
    ("head SRCnothing", 1, "SRCnothing"),
    ("head DENIEDx", 1, "DENIEDx"),
    (f"head {NO_BUCKET}/x", 1, NO_BUCKET),
    ("presign s3://b", 2, "s3://b"),
    ("presign SRCa --expires-in 9d", 2, "--expires-in 9d"),
    ("mb SRCa", 2, "SRCa"),
    ("mb s3://b:c", 2, "b:c"),
    ("rb CLOSED --force", 1, "CLOSED"),
    ("rb SRCa", 2, "SRCa"),
    (f"cleanup {NO_BUCKET}", 1, NO_BUCKET),
    ("cleanup DST --older-than soon", 2, "soon"),
    (f"mount {NO_BUCKET} TMP/mnt", 1, NO_BUCKET),
    ("umount TMP", 1, "TMP"),
    ("mounts x", 2, "x"),
    ("serve --port x", 2, "--port"),
    ("worker --max-requests x", 2, "--max-requests"),
    ("demo x y", 2, "x"),
    ("completion tcsh", 2, "tcsh"),
    ("man nothing", 2, "nothing"),
    ("tar ls SRCnothing.tar", 1, "SRCnothing.tar"),
    ("tar verify DENIEDx", 1, "DENIEDx"),
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


def _check_form(ran: CliResult, code: int, named: str) -> None:
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err + ran.out
    assert "moversecret" not in ran.err + ran.out
    message = ran.err.strip()
    assert message.startswith("seqferry: "), message
    assert "\n" not in message, "one message is one line"
    said = message.removeprefix("seqferry: ")
    assert named in said
    assert not DOUBLED.search(said), said
    assert NEXT.search(said), f"no next step: {said}"
    assert len(re.findall(r"[.?!](?=\s+[A-Z`])", said)) <= 2, f"more than three sentences: {said}"
    assert said.endswith(".") or re.search(r"[:;] (?:\S+ )*(?:seqferry|s3://|cp )\S*[^.]*$", said), said


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


def test_each_verb_is_provoked(cli: Cli) -> None:
    shown = cli.run("--help").out.partition("Commands:")[2].partition("Coming from")[0]
    verbs = set(re.findall(r"^  ([a-z0-9]+) ", shown, re.MULTILINE))

    # Those two speak as the AWS CLI and s5cmd do.
    assert verbs - {line.split()[0] for line, _, _ in LINES} == {"aws", "s5cmd"}


@pytest.mark.parametrize("line", ["ls s3://b", "cp s3://b/k s3://c/", "rm s3://b/k", "head s3://b/k", "mb s3://bbb"])
def test_an_endpoint_that_nobody_listens_at_is_told(cli: Cli, line: str) -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "mover",
        "AWS_SECRET_ACCESS_KEY": "moversecret",
        "AWS_REGION": "us-east-1",
        "SEQFERRY_ATTEMPTS": "1",
    }

    _check_form(cli.run(*line.split(), env=environment), 1, "http://127.0.0.1:9")


@pytest.mark.every_server
def test_a_key_that_nobody_knows_is_told(cli: Cli, places: Places) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "moversecret"}

    _check_form(cli.run("ls", places.uris[0], env=environment), 1, f"s3://{places.source}")


@pytest.mark.parametrize(
    ("operation", "line", "advice"),
    [
        ("CreateBucket", "mb s3://some-bucket", "Give these credentials s3:CreateBucket, or choose another name"),
        ("DeleteBucket", "rb s3://some-bucket", "Give these credentials s3:DeleteBucket"),
        ("ListBuckets", "ls", "Give these credentials s3:ListAllMyBuckets"),
    ],
)
def test_a_refused_request_about_a_bucket_names_its_permission(
    cli: Cli, s3server: S3Server, operation: str, line: str, advice: str
) -> None:
    cli.server = s3server
    with Proxy(s3server) as proxy:
        proxy.rule(operation, access_denied())

        ran = cli.run(*line.split(), env={"AWS_ENDPOINT_URL": proxy.endpoint_url})

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
    assert "run the same rm again.\n" in ran.err
    assert "Remove what has failed, and nothing else: seqferry retry " in ran.err
    assert "skipped" not in ran.err
    assert "Copy" not in ran.err.replace("CopyObject", "")
