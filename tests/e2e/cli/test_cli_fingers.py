"""Commands as users of other tools type them, with their effect at the storage."""

from __future__ import annotations

import pytest
from cli_process import Cli, Places

KEYS = ["a.txt", "b.log", "d/c.txt"]


@pytest.fixture
def places(versitygw_places: Places) -> Places:
    return versitygw_places


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
        ("sync --size-only SRC DST", KEYS),
        ("cp -s SRC DST", KEYS),
        ("copy --size-only SRC DST", KEYS),
        ("mv --size-only SRC DST", KEYS),
        ("cp --if-size-differ SRC DST", KEYS),
        ("sync -n SRC DST", None),
        ("cp --no-verify-ssl SRC DST", None),
        ("cp SRC*.txt DST", ["a.txt", "d/c.txt"]),
        ("s3 cp SRC DST --recursive", KEYS),
        ("s3 sync SRC DST --exclude *.log", ["a.txt", "d/c.txt"]),
        ("s3 cp SRC DST --recursive --page-size 100 --ignore-glacier-warnings", KEYS),
        ("--no-paginate --color off --output json s3 cp SRC DST --recursive", KEYS),
        ("--log error --stat --numworkers 16 cp SRC DST", KEYS),
        ("--json cp SRC DST", KEYS),
        ("cp -c 4 -p 64 SRC DST", KEYS),
        ("copy -v --stats 10s --checkers 8 --fast-list SRC DST", KEYS),
        ("copy --s3-chunk-size 64M --no-traverse SRC DST", KEYS),
        ("copyto SRCa.txt DSTz.txt", ["z.txt"]),
        ("cp SRCa.txt SRCb.log DST", ["a.txt", "b.log"]),
        ("cp --no-overwrite SRC DST", KEYS),
        ("cp --immutable SRC DST", KEYS),
        ("sync SRC DST --filter -_*.log", None),
        ("cp --debug SRC DST", None),
        ("--debug cp SRC DST", None),
        ("--no-verify-ssl cp SRC DST", None),
        ("--retry-count 3 cp SRC DST", None),
        ("cp --retries 3 SRC DST", None),
        ("cp --backup-dir x SRC DST", None),
        ("cp --flatten SRC DST", None),
    ],
)
def test_a_line_of_another_tool_does_what_was_meant(
    cli: Cli, places: Places, typed: str, arrived: list[str] | None
) -> None:
    places.fill(KEYS)
    words = {"SRC": places.uris[0], "DST": places.uris[1], "URL": places.server.endpoint_url}
    arguments = typed.split()
    for word, meant in words.items():
        arguments = [each.replace(word, meant) for each in arguments]

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


@pytest.mark.parametrize(
    ("typed", "is_told"),
    [
        ("cat URI", False),
        ("cat URI URI", False),
        ("cat SRC*.txt", False),
        ("s3 cat URI", False),
        ("cat --spool URI", False),
        ("cat --range 0-3 URI", False),
        ("cat -v --range 0-3 URI", False),
        ("cat -v URI", True),
        ("cat URI --verbose", True),
        ("--verbose cat URI", True),
    ],
)
def test_cat_says_nothing_beside_the_object(cli: Cli, places: Places, typed: str, is_told: bool) -> None:
    places.fill(["a.txt"])
    words = [word.replace("URI", f"{places.uris[0]}a.txt").replace("SRC", places.uris[0]) for word in typed.split()]

    shown, missing = cli.run(*words), cli.run(*(f"{word}x" if word.endswith("a.txt") else word for word in words))

    assert shown.code == 0, shown.err
    assert shown.out.startswith("cont")
    assert ("verified by" in shown.err) == is_told
    assert is_told or shown.err == ""
    assert "*" in typed or "There is no object" in missing.err


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


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("ls SRC --human-readable --summarize --recursive", "Total Objects: 3"),
        ("ls -H --summarize SRC", "Total Objects: 2"),
        ("ls -l SRC", "a.txt"),
        ("s3 ls SRC --recursive --page-size 10", "d/c.txt"),
        ("lsl SRC", "d/c.txt"),
        ("lsf SRC", "PRE d/"),
        ("ls --humanize SRC", "a.txt"),
        ("du --humanize SRC", "3 objects"),
        ("size SRC", "3 objects"),
        ("cat SRCa.txt", "content of"),
        ("head SRCa.txt", "content_type"),
        ("version", "seqferry "),
        ("help mv", "Usage: seqferry mv"),
    ],
)
def test_a_line_that_asks_is_answered(cli: Cli, places: Places, typed: str, shown: str) -> None:
    places.fill(KEYS)

    ran = cli.run(*(word.replace("SRC", places.uris[0]) for word in typed.split()))

    assert ran.code == 0, ran.err
    assert shown in ran.out
    assert places.arrived() == {}
