"""A list of commands as one durable transfer, with its effect at the storage.

Refused lists: ``tests/unit/cli/test_command_lines_of_lists.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, Places, id_of

from support.proxy import Proxy, held


def _listed(tmp_path: Path, places: Places, *lines: str) -> str:
    source, target = places.uris
    path = tmp_path / "commands.txt"
    path.write_text("".join(line.replace("SRC", source).replace("DST", target) + "\n" for line in lines))
    return str(path)


def test_commands_of_all_kinds_are_one_transfer(cli: Cli, places: Places, tmp_path: Path) -> None:
    content = places.fill(["a", "b", "c", "d/e", "old/1", "old/2", "sp ace"])
    (tmp_path / "file").write_bytes(b"local")
    commands = _listed(
        tmp_path,
        places,
        "# a comment, and an empty line",
        "",
        "cp SRCa DSTone",
        "s5cmd cp SRCa DSTtwo",
        "aws s3 mv SRCb DSTmoved --only-show-errors",
        "mv SRCd/ DSTd/",
        "rm SRCc",
        "rm -r SRCold/",
        "cp 'SRCsp ace' 'DSTsp ace'",
        f"cp {tmp_path / 'file'} DSTfile",
    )

    ran = cli.run("run", commands, "--json")

    assert ran.code == 0, ran.err + ran.out
    assert places.left() == ["a", "sp ace"]
    arrived = {"one": content["a"], "two": content["a"], "moved": content["b"], "d/e": content["d/e"]}
    assert places.content() == arrived | {"sp ace": content["sp ace"], "file": b"local"}
    assert ran.events[-1]["objects_done"] == 9
    rows = list(cli.run("status", ran.events[0]["id"], "--objects", "--json").events)
    keys = [row["source_key"] for row in rows if row["event"] == "object"]
    assert f"3 {places.uris[0]}a" in keys
    assert f"7 {places.uris[0]}c" in keys

    verified = cli.run("verify", ran.events[0]["id"], "--json").events[-1]
    assert (verified["objects"], verified["same"], verified["exit_code"]) == (6, 6, 0), "those that were not removed"
    (tmp_path / "file").write_bytes(b"has no part in it any more")
    places.s3.delete_object(Bucket=places.target, Key="archive/moved")
    found = cli.run("verify", ran.events[0]["id"], "--content", "--json")
    assert (found.code, found.events[-1]["missing"], found.events[-1]["content"]) == (3, 1, 5)


def test_lines_copy_and_move_within_one_bucket(cli: Cli, places: Places, tmp_path: Path) -> None:
    content = places.fill(["a", "b", "c"])

    refused = cli.run("run", _listed(tmp_path, places, "cp SRCa SRCa.copy", "mv SRCb SRCd/b", "cp SRCa SRCc --dry-run"))
    assert (refused.code, len(refused.err.splitlines()), places.left()) == (2, 1, ["a", "b", "c"])
    ran = cli.run("run", _listed(tmp_path, places, "cp SRCa SRCa.copy", "mv SRCb SRCd/b"))

    assert ran.code == 0, ran.err
    assert places.left() == ["a", "a.copy", "c", "d/b"]
    copied = places.s3.get_object(Bucket=places.source, Key="run42/d/b")["Body"].read()
    assert copied == content["b"]


def test_a_key_may_hold_what_ends_lines_elsewhere(cli: Cli, seaweedfs_places: Places, tmp_path: Path) -> None:
    places = seaweedfs_places
    places.fill(["a"])

    ran = cli.run("run", _listed(tmp_path, places, "cp SRCa 'DSTone\u2028two'", "cp SRCa 'DSTthree\x85four'\r"))

    assert ran.code == 0, ran.err
    assert sorted(places.content()) == ["one\u2028two", "three\x85four"]


def test_a_line_that_cannot_be_done_fails_by_itself(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(["a"])
    commands = _listed(tmp_path, places, "cp s3://no-such-bucket-at-all/x DSTx", "cp SRCa DSTa", "cp SRCnothing DSTn")

    ran = cli.run("run", commands)

    assert ran.code == 1
    assert sorted(places.content()) == ["a"]
    assert "1 s3://no-such-bucket-at-all/x" in ran.err
    assert "3 " in ran.err


@pytest.mark.parametrize("verb", ["cp", "mv"])
def test_two_lines_that_would_write_one_key_copy_nothing(cli: Cli, places: Places, tmp_path: Path, verb: str) -> None:
    places.fill(["a/same", "a/one", "b/same", "b/two"])

    ran = cli.run("run", _listed(tmp_path, places, f"{verb} SRCa/ DSTn/", f"{verb} SRCb/ DSTn/"))

    source, _ = places.uris
    assert ran.code == 1
    assert f"Line 1 writes {source}a/same and line 2 writes {source}b/same to one place" in ran.err
    assert "write two lists" in ran.err
    assert (places.content(), places.left()) == ({}, ["a/one", "a/same", "b/same", "b/two"])


def test_lines_write_below_one_prefix_and_one_folder(cli: Cli, places: Places, tmp_path: Path) -> None:
    content = places.fill(["a/one", "b/two", "c/three"])
    (tmp_path / "to").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "to")

    ran = cli.run(
        "run",
        _listed(
            tmp_path,
            places,
            "cp SRCa/ DSTn/",
            "cp SRCb/ DSTn/",
            "cp SRCc/three DSTn/three",
            f"cp SRCa/ {tmp_path}/to/",
            f"cp SRCb/ {tmp_path}/link/",
        ),
    )

    assert ran.code == 0, ran.err
    assert places.content() == {f"n/{name.split('/')[1]}": body for name, body in content.items()}
    assert sorted(file.name for file in (tmp_path / "to").iterdir()) == ["one", "two"]


def test_two_lines_that_would_write_one_file_write_none(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(["a/same", "b/same"])
    (tmp_path / "to").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "to")

    lines = [f"cp SRCa/ {tmp_path}/to/", f"cp SRCb/ {tmp_path}/link/"]
    ran = cli.run("run", _listed(tmp_path, places, *lines))

    assert ran.code == 1
    assert "to one place" in ran.err
    assert list((tmp_path / "to").iterdir()) == []


def test_a_list_that_was_killed_goes_on(cli: Cli, places: Places, proxy: Proxy, tmp_path: Path) -> None:
    content = places.fill([f"{number:02d}" for number in range(12)])
    commands = _listed(tmp_path, places, *(f"mv SRC{name} DSTin/{name}" for name in content))
    cli.server = proxy.server
    with held(proxy, "DeleteObject", after=4):
        running = cli.start("run", commands)
        transfer_id = id_of(running)
        proxy.wait_held(count=1)
        running.kill()
    proxy.wait_idle()
    both = {*places.left(), *(name.removeprefix("in/") for name in places.arrived())}
    assert both == set(content)

    ran = cli.run("resume", transfer_id)

    assert ran.code == 0, ran.err
    assert places.left() == []
    assert places.content() == {f"in/{name}": body for name, body in content.items()}


def test_a_dry_run_of_a_list_changes_nothing(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(["a", "b"])

    ran = cli.run("run", _listed(tmp_path, places, "cp SRCa DSTa", "rm SRCb"), "--dry-run")

    assert ran.code == 0, ran.err
    assert "(dry run) remove" in ran.out
    assert (places.content(), places.left()) == ({}, ["a", "b"])
