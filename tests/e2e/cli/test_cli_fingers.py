"""What people type who come from other tools, with its effect at the storage."""

from __future__ import annotations

import pytest
from cli_process import Cli, Places

KEYS = ["a.txt", "b.log", "d/c.txt"]


@pytest.mark.parametrize(
    ("typed", "arrived"),
    [
        ("cp --recursive SRC DST", KEYS),
        ("cp -r SRC DST", KEYS),
        ("cp SRC DST --recursive --only-show-errors", KEYS),
        ("cp SRC DST --recursive --exclude * --include *.txt", ["a.txt", "d/c.txt"]),
        ("cp --no-guess-mime-type --expected-size 100 SRC DST", KEYS),
        ("--dry-run cp SRC DST", []),
        ("cp --dryrun SRC DST", []),
        ("--endpoint-url URL --no-sign-request=false cp SRC DST", None),
        ("--endpoint-url URL cp SRC DST", KEYS),
        ("--endpoint-url=URL cp SRC DST", KEYS),
        ("cp --part-size 64 --concurrency 4 SRC DST", KEYS),
        ("cp --numworkers 8 SRC DST", KEYS),
        ("cp -n SRC DST", KEYS),
        ("cp --show-progress SRC DST", KEYS),
        ("copy -P SRC DST", KEYS),
        ("copy -n SRC DST", []),
        ("copy --transfers 8 --checksum --ignore-existing SRC DST", KEYS),
        ("sync --bwlimit 100M SRC DST", KEYS),
        ("sync --min-age 7d SRC DST", []),
        ("sync --max-age 7d SRC DST", KEYS),
        ("sync --size-only SRC DST", None),
        ("sync -n SRC DST", None),
        ("cp --no-verify-ssl SRC DST", None),
        ("cp SRC*.txt DST", ["a.txt", "d/c.txt"]),
    ],
)
def test_a_line_of_another_tool_does_what_was_meant(
    cli: Cli, places: Places, typed: str, arrived: list[str] | None
) -> None:
    places.fill(KEYS)
    words = {"SRC": places.uris[0], "DST": places.uris[1], "URL": places.server.endpoint_url}
    arguments = [words.get(word, word) for word in typed.split()]
    arguments = [word.replace("SRC*", f"{words['SRC']}*").replace("=URL", f"={words['URL']}") for word in arguments]

    ran = cli.run(*arguments)

    if arrived is None:
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1, ran.err
    else:
        assert ran.code in ((0, 4) if not arrived else (0,)), ran.err
    assert sorted(places.content()) == sorted(arrived or [])


def test_cat_and_pipe_are_copies_of_standard_output_and_input(cli: Cli, places: Places) -> None:
    content = places.fill(["a.txt"])

    shown = cli.run("cat", f"{places.uris[0]}a.txt")

    assert shown.code == 0, shown.err
    assert shown.out.encode() == content["a.txt"]


@pytest.mark.parametrize("typed", ["help cp", "cp --help"])
def test_help_is_a_verb_as_well(cli: Cli, typed: str) -> None:
    ran = cli.run(*typed.split())

    assert ran.code == 0
    assert "Usage: seqferry cp" in ran.out


def test_sizes_are_summed_up(cli: Cli, places: Places) -> None:
    content = places.fill(KEYS)
    total = sum(map(len, content.values()))

    used = cli.run("du", places.uris[0], "--json")
    listed = cli.run("ls", "-r", "--summarize", places.uris[0])

    assert used.code == listed.code == 0, used.err + listed.err
    [event] = used.events
    assert (event["objects"], event["bytes"]) == (3, total)
    assert listed.out.splitlines()[-2:] == ["Total Objects: 3", f"   Total Size: {total}"]
    assert cli.run("du", "-H", places.uris[0]).out.split() == [str(total), "B", "3", "objects", places.uris[0]]
    assert cli.run("du", f"{places.uris[0]}nothing").code == 4
