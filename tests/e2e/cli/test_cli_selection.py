"""What is selected on the command line: wildcards, rules, lists, sizes and several sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, Places

KEYS = ["a.txt", "b.log", "c.bam", "d/a.txt", "d/b.log", "d/e/c.bam", "x[1].txt"]


def test_rules_sizes_and_ages_select(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    """What each rule selects: ``tests/unit/spec/test_selection.py``."""
    for number, (options, arrived) in enumerate(
        [
            ("--exclude * --include *.txt", {"a.txt", "d/a.txt", "x[1].txt"}),
            ("--include *.txt --exclude *", set[str]()),
            ("--exclude=*.log --exclude=d/e/*", {"a.txt", "c.bam", "d/a.txt", "x[1].txt"}),
            ("--min-size 20 --max-size 21", {"d/a.txt", "d/b.log", "x[1].txt"}),
            ("--older-than 2000-01-01", set[str]()),
            ("--newer-than 1d --exclude d/*", {"a.txt", "b.log", "c.bam", "x[1].txt"}),
        ]
    ):
        with subtests.test(options):
            own = places.of_case(number)
            own.fill(KEYS)

            ran = cli.run("cp", *options.split(), *own.uris)

            assert ran.code == (0 if arrived else 4), ran.err
            assert set(own.content()) == arrived


def test_a_wildcard_selects_and_names_by_what_follows_its_folder(cli: Cli, places: Places) -> None:
    places.fill(KEYS)

    ran = cli.run("cp", f"s3://{places.source}/run42/d/*.log", places.uris[1])

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"b.log"}
    assert cli.run("cp", f"s3://{places.source}/run42/x[1]*", places.uris[1]).code == 0
    assert set(places.content()) == {"b.log", "x[1].txt"}
    nothing = cli.run("cp", f"s3://{places.source}/run42/d/e/*.bm", places.uris[1])
    assert nothing.code == 4
    assert f"nearest   s3://{places.source}/run42/d/e/c.bam" in nothing.err
    for command in (("cp", "--json"), ("cp", "--dry-run", "--json")):
        told = cli.run(*command, f"s3://{places.source}/run42/gone/*.bam", places.uris[1])
        assert told.code == 4
        assert any("c.bam" in key for key in told.events[-1]["nearest"])
    mistyped = cli.run("cp", f"s3://{places.source}/run42/a.tx", places.uris[1])
    assert mistyped.code == 2
    assert f"nearest: s3://{places.source}/run42/a.txt" in mistyped.err


def test_a_list_names_the_objects(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(KEYS)
    listed = tmp_path / "keys"
    listed.write_text("a.txt\n\nd/e/c.bam\na.txt\n")

    ran = cli.run("cp", "--files-from", str(listed), *places.uris)

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"a.txt", "d/e/c.bam"}
    listed.write_text("a.txt\ns3://elsewhere/b\n")
    refused = cli.run("cp", "--files-from", str(listed), *places.uris)
    assert refused.code == 2
    assert "line 2" in refused.err


def test_a_key_of_a_list_that_cannot_be_read_is_a_failed_object(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(KEYS)
    places.server.deny(places.source, "run42/b.log", actions=["s3:GetObject"])
    listed = tmp_path / "keys"
    listed.write_text("a.txt\nb.log\nabsent\nd/e/c.bam\n")

    ran = cli.run("cp", "--files-from", str(listed), *places.uris, "--json")

    assert ran.code == 1, ran.err
    assert set(places.content()) == {"a.txt", "d/e/c.bam"}
    failed = {one["source_key"]: one["error_code"] for one in ran.events if one["event"] == "object"}
    assert failed == {"run42/b.log": "AccessDenied", "run42/absent": "NoSuchKey"}
    listed.write_text("absent\n")
    assert cli.run("cp", "--files-from", str(listed), *places.uris, "--new").code == 1


def test_files_that_the_shell_has_named_go_together(cli: Cli, places: Places, tmp_path: Path) -> None:
    for name in ("1.bam", "2.bam", "3.txt"):
        (tmp_path / name).write_text(name)
    paths = [str(tmp_path / name) for name in ("1.bam", "2.bam")]

    ran = cli.run("cp", *paths, places.uris[1])

    assert ran.code == 0, ran.err
    assert places.content() == {"1.bam": b"1.bam", "2.bam": b"2.bam"}
    quoted = cli.run("cp", str(tmp_path / "*.txt"), places.uris[1])
    assert quoted.code == 0, quoted.err
    assert set(places.content()) == {"1.bam", "2.bam", "3.txt"}
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("inside")
    assert cli.run("cp", *paths, str(tmp_path / "folder"), places.uris[1]).code == 0
    assert set(places.content()) == {"1.bam", "2.bam", "3.txt", "folder/inside"}
    assert cli.run("cp", paths[0], f"{places.uris[0]}a.txt", places.uris[1]).code == 2


def test_a_csv_list_names_targets(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(KEYS)
    listed = tmp_path / "keys.csv"
    listed.write_text("key,version_id,target_key\na.txt,,renamed/first\nd/e/c.bam\n")

    ran = cli.run("cp", "--files-from", str(listed), *places.uris)

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"renamed/first", "d/e/c.bam"}
    listed.write_text("a.txt\nb.log,,a.txt\n")
    collided = cli.run("cp", "--files-from", str(listed), *places.uris)
    assert collided.code == 2
    assert "'a.txt' and 'b.log'" in collided.err
    listed.write_text('a.txt\n"b.log"x\n')
    malformed = cli.run("cp", "--files-from", str(listed), *places.uris)
    assert malformed.code == 2
    assert "keys.csv, line 2, character 8" in malformed.err


def test_rules_rename_and_nothing_is_copied_when_two_get_one_name(cli: Cli, places: Places) -> None:
    places.fill(KEYS)

    refused = cli.run("cp", "--rename", "s|.*/||", *places.uris)

    assert refused.code == 1, refused.err
    named = [f"s3://{places.source}/run42/{key}" for key in ("a.txt", "d/a.txt")]
    assert all(name in refused.err for name in named) or "b.log" in refused.err
    assert places.content() == {}
    shown = cli.run("cp", "--dry-run", "--rename", "s|.*/||", *places.uris)
    assert shown.code == 2
    assert "would both become" in shown.err
    ran = cli.run("cp", "--rename", "s|/|__|g", "--rename", r"s/\.txt$/.TXT/", *places.uris)
    assert ran.code == 0, ran.err
    assert set(places.content()) == {"a.TXT", "b.log", "c.bam", "d__a.TXT", "d__b.log", "d__e__c.bam", "x[1].TXT"}
    assert cli.run("cp", "--json", "--rename", "s|/|__|g", *places.uris).code == 0


def test_sources_of_different_prefixes_go_to_one_target(cli: Cli, places: Places) -> None:
    places.fill(KEYS)
    base = f"s3://{places.source}/run42"

    ran = cli.run("cp", f"{base}/a.txt", f"{base}/d/e/", f"{base}/d/*.log", places.uris[1])

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"a.txt", "c.bam", "b.log"}
    missing = cli.run("cp", f"{base}/d/e/", f"{base}/absent", places.uris[1])
    assert missing.code == 1
    assert "There is no object" in missing.err
    assert "run42/absent" in missing.err
    collided = cli.run("cp", f"{base}/a.txt", f"{base}/d/", f"{places.uris[1]}new/")
    assert collided.code == 1
    assert "d/a.txt" in collided.err
    assert not any(name.startswith("new/") for name in places.content())


def test_sync_removes_nothing_that_it_does_not_select(cli: Cli, places: Places) -> None:
    places.fill(KEYS)
    for name in ("extra.log", "extra.txt"):
        places.s3.put_object(Bucket=places.target, Key=f"archive/{name}", Body=b"old")

    ran = cli.run("sync", "--delete", "--exclude", "*.log", *places.uris)

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"a.txt", "c.bam", "d/a.txt", "d/e/c.bam", "x[1].txt", "extra.log"}


def test_the_same_selection_goes_on_with_the_unfinished_transfer(cli: Cli, places: Places) -> None:
    places.fill(KEYS)
    command = ("cp", "--newer-than", "7d", "--exclude", "*.log", *places.uris)
    submitted = cli.run(*command, "--detach")
    assert submitted.code == 0, submitted.err

    ran = cli.run(*command, "--json")

    assert ran.code == 0, ran.err
    assert {event["id"] for event in ran.events if "id" in event} == {submitted.out.strip()}
    assert set(places.content()) == {"a.txt", "c.bam", "d/a.txt", "d/e/c.bam", "x[1].txt"}
