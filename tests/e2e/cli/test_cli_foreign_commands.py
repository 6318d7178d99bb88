"""Lines as users of other tools type them, with their effect at the storage.

Which line of ours each of them becomes is in ``tests/unit/cli/test_foreign_commands.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from cli_process import Cli, Places

NEW = {name: f"content of {name!r}".encode() for name in ("a.txt", "b.log", "d/c.txt")}
OLD = {"a.txt": b"old", "kept": b"kept"}
"""Objects that are at the target before."""

ALL = {**OLD, **NEW}


def _with(*names: str) -> dict[str, bytes]:
    return {**OLD, **{name: NEW[name] for name in names}}


class Line(NamedTuple):
    """A typed line, the objects that are at its target afterwards, its exit code, and a part of what it says."""

    typed: str
    left: dict[str, bytes]
    code: int = 0
    said: str = ""


LINES = [
    Line("s3 cp SRC DST --recursive --page-size 100", ALL),
    Line("--endpoint-url URL cp SRC DST", ALL),
    Line("--json cp SRC DST", ALL, said='"objects_done": 3'),
    Line("copy --transfers 8 --checksum --stats 10s SRC DST", ALL, said="Done: 3 objects"),
    Line("cp -n SRC DST", {**NEW, **OLD}),
    Line("copy -n SRC DST", OLD, said="(dry run)"),
    Line("copy --min-age 7d SRC DST", OLD, code=4),
    Line("sync --max-age 7d SRC DST --exclude *.log", _with("a.txt", "d/c.txt")),
    Line("cp SRC DST --exclude * --include *.log", _with("b.log")),
    Line("cp SRC*.txt DST", _with("a.txt", "d/c.txt")),
    Line("cp SRCa.txt SRCb.log DST", _with("a.txt", "b.log")),
    Line("cp FOLDER/plain FOLDER/list DST", {**OLD, "plain": b"plain", "list": b"b.log\n"}),
    Line("cp --files-from FOLDER/list SRC DST", _with("b.log")),
    Line("copyto SRCa.txt DSTz.txt", {**OLD, "z.txt": NEW["a.txt"]}),
    Line("pipe DSTpiped", {**OLD, "piped": b""}),
    Line("sync -n SRC DST", OLD, code=2, said="--dry-run"),
    Line("cp --no-verify-ssl SRC DST", OLD, code=2, said="AWS_CA_BUNDLE"),
    Line("--no-sign-request cp SRC DST", OLD, code=1, said="AccessDenied"),
    Line("cp SRC*.gz DST", OLD, code=4),
]


@pytest.fixture
def places(versitygw_places: Places) -> Places:
    versitygw_places.fill([*NEW])
    return versitygw_places


def test_lines_of_other_tools_do_what_was_meant(
    cli: Cli, versitygw_places: Places, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "plain").write_bytes(b"plain")
    (tmp_path / "list").write_bytes(b"b.log\n")
    for number, line in enumerate(LINES):
        with subtests.test(line.typed):
            own = versitygw_places.of_case(number)
            own.fill([*NEW])
            for name, content in OLD.items():
                own.s3.put_object(Bucket=own.target, Key=f"archive/{own.case}{name}", Body=content)
            words = own.words(line.typed, URL=own.server.endpoint_url, FOLDER=str(tmp_path))
            elsewhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"} if "URL" in line.typed else {}

            ran = cli.run(*words, env=elsewhere)

            assert ran.code == line.code, ran.err
            assert line.said in ran.out + ran.err
            assert own.content() == line.left
            assert own.left() == sorted(NEW)


def test_lines_that_ask_are_answered(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    for typed, shown in (
        ("ls SRC --human-readable --summarize --recursive", "Total Objects: 3"),
        ("ls -H --summarize SRC", "Total Objects: 2"),
        ("s3 ls SRC --recursive --page-size 10", "d/c.txt"),
        ("lsf SRC", "PRE d/"),
        ("ls SRC*.log", "b.log"),
        ("size SRC", "3 objects"),
        ("head SRCa.txt", "content_type"),
        ("cat SRCa.txt", "content of 'a.txt'"),
        ("version", "seqferry "),
        ("help mv", "Usage: seqferry mv"),
        ("cp --help", "Options of aws s3, s5cmd, rclone and mount-s3 are accepted"),
    ):
        with subtests.test(typed):
            ran = cli.run(*places.words(typed))

            assert ran.code == 0, ran.err
            assert shown in ran.out


def test_cat_says_nothing_beside_the_object(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    lines = (("cat URI", False), ("cat --range 0-3 URI", False), ("cat -v URI", True))
    for typed, is_told in lines:
        with subtests.test(typed):
            uri = f"{places.uris[0]}a.txt"
            shown = cli.run(*typed.replace("URI", uri).split())
            missing = cli.run(*typed.replace("URI", f"{uri}x").split())

            assert shown.code == 0, shown.err
            assert shown.out.startswith("cont")
            assert ("verified by" in shown.err) == is_told
            assert is_told or shown.err == ""
            assert "There is no object" in missing.err


def test_sizes_are_summed_up(cli: Cli, places: Places) -> None:
    total = sum(map(len, NEW.values()))

    used = cli.run("du", places.uris[0], "--json")
    listed = cli.run("ls", "-r", "--summarize", places.uris[0])

    assert used.code == listed.code == 0, used.err + listed.err
    [event] = used.events
    assert (event["objects"], event["bytes"]) == (3, total)
    assert listed.out.splitlines()[-2:] == ["Total Objects: 3", f"   Total Size: {total}"]
    assert cli.run("du", "-H", places.uris[0]).out.split() == [str(total), "B", "3", "objects", places.uris[0]]
    assert cli.run("du", f"{places.uris[0]}nothing").code == 4
