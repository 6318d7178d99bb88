"""``seqferry cp`` from start to end."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import unicodedata

import pytest
from cli_process import Cli, Places

from support.servers import MOVER

KEYS = [
    "plain.txt",
    "with space.txt",
    "Müller – 試料.txt",
    "plus+percent%20and&amp;.txt",
    "new\nline.txt",
    "markup[bold]x[/bold].txt",
    "turn\u202earound.txt",
    "deep/er/and/deeper.txt",
    "empty",
]


@pytest.mark.every_server
def test_a_prefix_is_copied_verified_and_told(cli: Cli, places: Places) -> None:
    content = places.fill(KEYS)

    ran = cli.run("cp", *places.uris)

    assert ran.code == 0, ran.err
    assert places.content() == content
    assert ran.out == ""
    assert re.match(r"transfer [0-9a-f-]{36}\n", ran.err)
    assert "Done: 9 objects in " in ran.err
    assert "  copied    9 objects" in ran.err
    assert re.search(r"\n  verified  \d+ by ", ran.err)
    assert "Traceback" not in ran.err


@pytest.mark.every_server
def test_a_second_run_copies_nothing(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])
    assert cli.run("cp", *places.uris, "-q").code == 0

    again = cli.run("cp", *places.uris, "--json")

    assert again.code == 0
    assert (again.events[-1]["objects_done"], again.events[-1]["objects_skipped"]) == (0, 2)


def test_json_is_one_event_per_line_and_nothing_else(cli: Cli, places: Places) -> None:
    places.fill(KEYS)

    ran = cli.run("cp", *places.uris, "--json")

    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert ran.events[0]["event"] == "submitted"
    assert {event["event"] for event in ran.events[1:-1]} <= {"progress"}
    summary = ran.events[-1]
    assert summary["event"] == "summary"
    assert (summary["id"], summary["objects"], summary["objects_done"]) == (ran.events[0]["id"], 9, 9)
    assert (summary["exit_code"], summary["state"]) == (0, "done")
    assert sum(summary["verified"].values()) == 9
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", event["at"]) for event in ran.events)


def test_what_counted_requests_cost_is_told_by_the_prices_of_a_region(cli: Cli, versitygw_places: Places) -> None:
    places = versitygw_places
    places.fill(["a", "b", "c"])

    ran = cli.run("cp", *places.uris, "--price", "us-east-1", "--json")

    assert ran.code == 0, ran.err
    cost = ran.events[-1]["cost"]
    assert cost["requests_counted"] >= 3
    assert cost["requests"] == pytest.approx(cost["requests_counted"] * 0.005 / 1000)
    assert (cost["region"], cost["egress"]) == ("us-east-1", None)
    transfer = ran.events[0]["id"]
    [status] = cli.run("status", transfer, "--price", "us-east-1", "--json").events
    assert status["cost"] == cost
    shown = cli.run("status", transfer, "--price", "eu-west-1").out
    assert f"cost      at most $0.0001 for {cost['requests_counted']} requests, list prices of eu-west-1" in shown
    assert "DataSync asks $0.55" in shown
    receipt = json.loads(cli.run("report", transfer, "--price", "us-east-1").out)
    assert receipt["cost"] == cost
    assert "Cost at list prices" in cli.run("report", transfer, "--price", "us-east-1", "--format", "html").out
    [plain] = cli.run("status", transfer, "--json").events
    assert plain["cost"] is None, "a service that is not AWS has no prices"
    for command in (("status", transfer), ("report", transfer), ("cp", *places.uris)):
        refused = cli.run(*command, "--price", "mars-1")
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)


def test_quiet_says_nothing_when_all_is_well(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("cp", *places.uris, "--quiet")

    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_one_object_goes_to_a_prefix_or_an_exact_key(cli: Cli, places: Places) -> None:
    places.fill(["a.txt", "a.txt.md5"])

    assert cli.run("cp", f"{places.uris[0]}a.txt", places.uris[1]).code == 0
    assert cli.run("cp", f"{places.uris[0]}a.txt", f"{places.uris[1]}b.txt").code == 0

    assert sorted(places.content()) == ["a.txt", "b.txt"]


def test_nothing_matched_is_exit_code_4(cli: Cli, places: Places) -> None:

    ran = cli.run("cp", *places.uris)

    assert ran.code == 4
    assert f"nothing is at {places.uris[0]}" in ran.err


def test_a_dry_run_shows_and_writes_nothing(cli: Cli, places: Places) -> None:
    places.fill(["a", "new\nline"])
    source, target = places.uris

    ran = cli.run("cp", *places.uris, "--dry-run")
    as_json = cli.run("cp", *places.uris, "--dryrun", "--json")

    assert ran.code == as_json.code == 0
    assert sorted(ran.out.splitlines()) == [
        f"(dry run) copy {source}a to {target}a",
        f"(dry run) copy {source}new\\nline to {target}new\\nline",
    ]
    assert {event.get("target_key") for event in as_json.events} == {"archive/a", "archive/new\nline", None}
    assert places.content() == {}
    assert cli.run("status").out == ""


def test_failed_objects_are_grouped_and_the_others_copied(cli: Cli, seaweedfs_places: Places) -> None:
    # An escape in a key, which only one of the servers lists as it is.
    places = seaweedfs_places
    content = places.fill(["a", "b", "odd\x1b[2J\nkey"])
    for key in ("b", "odd\x1b[2J\nkey"):
        places.s3.put_object(Bucket=places.target, Key=f"archive/{key}", Body=b"something else")

    ran = cli.run("cp", *places.uris, "--if-exists", "fail")

    assert ran.code == 1
    assert places.content()["a"] == content["a"]
    assert places.content()["b"] == b"something else"
    assert "2 objects failed:" in ran.err
    assert "Next: Use --if-exists same or overwrite" in ran.err
    assert "    run42/b\n" in ran.err
    assert "    run42/odd\\x1b[2J\\nkey\n" in ran.err
    assert not [character for character in ran.err if unicodedata.category(character) == "Cc" and character != "\n"]
    transfer_id = ran.err.split()[1]

    listed = cli.run("status", transfer_id, "--failed", "--json")

    failed = [event for event in listed.events if event["event"] == "object"]
    assert sorted(event["source_key"] for event in failed) == sorted(f"run42/{key}" for key in content if key != "a")
    assert {event["error_class"] for event in failed} == {"exists"}
    assert {event["state"] for event in failed} == {"failed"}


def test_a_missing_bucket_is_named(cli: Cli, places: Places) -> None:
    ran = cli.run("cp", "s3://no-such-bucket-anywhere/x/", places.uris[1])

    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1, ran.err
    assert "no-such-bucket-anywhere" in ran.err
    assert cli.run("status").out == ""


def test_an_unreachable_endpoint_is_named(cli: Cli) -> None:
    ran = cli.run("cp", "s3://a/x/", "s3://b/y/", "--endpoint-url", "http://127.0.0.1:9")

    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1, ran.err
    assert "127.0.0.1:9" in ran.err


def test_a_state_folder_that_cannot_be_written_is_named(cli: Cli) -> None:
    shutil.rmtree(cli.state)
    cli.state.write_text("a file is in the way")

    ran = cli.run("status")

    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1, ran.err
    assert str(cli.state) in ran.err


@pytest.mark.every_server
def test_wrong_credentials_are_told_without_showing_them(cli: Cli, places: Places) -> None:
    ran = cli.run(
        "cp",
        places.uris[0],
        places.uris[1],
        env={"AWS_SECRET_ACCESS_KEY": "wrong-and-private"},
    )

    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1, ran.err
    assert "wrong-and-private" not in ran.err + ran.out


def test_no_secret_is_written_anywhere(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("cp", *places.uris, "--json")
    shown = cli.run("status", ran.events[0]["id"], "--objects", "--json")

    assert ran.code == shown.code == 0
    written = [file for file in cli.state.rglob("*") if file.is_file()]
    assert written
    assert not [file for file in written if MOVER.secret_key.encode() in file.read_bytes()]
    assert MOVER.secret_key not in ran.out + ran.err + shown.out


def test_ls_shows_one_level_or_all(cli: Cli, places: Places) -> None:
    places.fill(["b.txt", "a.txt", "sub/c.txt", "sub/d.txt", "new\nline"])

    level = cli.run("ls", places.uris[0])
    everything = cli.run("ls", places.uris[0], "--recursive")
    as_json = cli.run("ls", places.uris[0], "--recursive", "--json")
    nothing = cli.run("ls", f"{places.uris[0]}nothing/")

    assert [line.split(maxsplit=1)[0] for line in level.out.splitlines()].count("PRE") == 1
    assert [line.split(maxsplit=3)[-1].split()[-1] for line in level.out.splitlines()] == [
        "a.txt",
        "b.txt",
        "new\\nline",
        "sub/",
    ]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ ", level.out)
    assert len(everything.out.splitlines()) == 5
    assert " run42/sub/c.txt" in everything.out
    assert {event["key"] for event in as_json.events} == {
        f"run42/{key}" for key in ("a.txt", "b.txt", "sub/c.txt", "sub/d.txt", "new\nline")
    }
    assert (nothing.code, nothing.out) == (4, "")


def test_ls_needs_neither_state_folder_nor_database(cli: Cli, places: Places) -> None:
    shutil.rmtree(cli.state)
    places.fill(["a.txt"])
    env = {"SEQFERRY_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}

    ran = cli.run("ls", places.uris[0], env=env)

    assert ran.code == 0, ran.err
    assert ran.out.endswith(" a.txt\n")
    assert not cli.state.exists()


def test_names_are_escaped_where_the_terminal_lacks_their_characters(cli: Cli, places: Places) -> None:
    places.fill(["ä名.txt"])

    ran = cli.run("ls", places.uris[0], env={"PYTHONIOENCODING": "ascii"})

    assert ran.code == 0, ran.err
    assert ran.out.endswith(r" \xe4\u540d.txt" + "\n")


def test_options_have_environment_twins(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("cp", *places.uris, env={"SEQFERRY_DRY_RUN": "1", "SEQFERRY_JSON": "1"})

    assert [json.loads(line)["event"] for line in ran.out.splitlines()] == ["planned", "dry_run"]


def test_a_reader_that_goes_away_is_no_crash(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])

    process = subprocess.Popen(
        [cli.command, "ls", places.uris[0]],
        env={**os.environ, **cli.environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert errors == ""
