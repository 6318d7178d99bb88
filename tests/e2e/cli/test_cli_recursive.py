"""``--recursive``: a name that no object has is a prefix, as in the AWS CLI and s5cmd."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, Places


@pytest.fixture
def places(versitygw_places: Places) -> Places:
    versitygw_places.fill(["tarball/a", "tarball/sub/b", "tarball2/c", "file"])
    return versitygw_places


@pytest.mark.parametrize(
    ("typed", "arrived"),
    [
        ("cp SRC/tarball OUT/x --recursive", ["x/a", "x/sub/b"]),
        ("cp -r SRC/tarball OUT/x", ["x/a", "x/sub/b"]),
        ("cp -R SRC/tarball/ OUT/x", ["x/a", "x/sub/b"]),
        ("get -r SRC/tarball OUT/x", ["x/a", "x/sub/b"]),
        ("cp -a SRC/tarball OUT/x", ["x/a", "x/sub/b"]),
        ("s3 cp SRC/tarball OUT/x --recursive", ["x/a", "x/sub/b"]),
        ("mv -r SRC/tarball OUT/x", ["x/a", "x/sub/b"]),
        ("sync -r SRC/tarball OUT/x", ["x/a", "x/sub/b"]),
        ("cp -r SRC/tarball DST", ["a", "sub/b"]),
        ("cp -r SRC/tarball DST/x", ["x/a", "x/sub/b"]),
        ("cp -r SRC/tarball SRC/file DST/x", ["x/a", "x/file", "x/sub/b"]),
        ("cp -r SRC/tarball SRC/tarball2 OUT/x", ["x/a", "x/c", "x/sub/b"]),
        ("cp -r --dry-run SRC/tarball OUT/x", []),
        # An object counts before a prefix, and a wildcard selects by itself.
        ("cp -r SRC/file OUT/x", ["x"]),
        ("cp -r SRC/tarball* OUT/x", ["x/tarball/a", "x/tarball/sub/b", "x/tarball2/c"]),
        ("cp -r --files-from LIST SRC/tarball OUT/x", ["x/a"]),
        ("run LINES", ["x/a", "x/sub/b", "y"]),
    ],
)
def test_a_name_without_an_object_is_a_prefix(
    cli: Cli, places: Places, tmp_path: Path, typed: str, arrived: list[str]
) -> None:
    (tmp_path / "list").write_text("a\n")
    words = {"SRC": places.uris[0].rstrip("/"), "DST": places.uris[1].rstrip("/"), "OUT": str(tmp_path / "out")}
    words |= {"LIST": str(tmp_path / "list"), "LINES": str(tmp_path / "lines")}
    lines = f"cp -r {words['SRC']}/tarball {words['OUT']}/x\nmv -r {words['SRC']}/file {words['OUT']}/y\n"
    (tmp_path / "lines").write_text(lines)
    arguments = typed.split()
    for word, meant in words.items():
        arguments = [each.replace(word, meant) for each in arguments]

    ran = cli.run(*arguments)

    assert ran.code == 0, ran.err
    written = [str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted([*written, *places.content()]) == arrived


def test_what_a_name_means_is_the_same_for_checks_looks_and_schedules(cli: Cli, places: Places, tmp_path: Path) -> None:
    source, out = f"{places.uris[0]}tarball", str(tmp_path / "out")
    assert cli.run("cp", "-r", source, out).code == 0

    checked = cli.run("check", "-r", source, out)
    (tmp_path / "out" / "a").unlink()
    differs = cli.run("check", "-r", source, out)
    looked = cli.run("preflight", "-r", source, out, "--json")
    scheduled = cli.run("schedule", "add", "0 2 * * *", "cp", "-r", source, out, "--json")

    assert (checked.code, differs.code, differs.out) == (0, 3, "+ a\n"), checked.err + differs.err
    assert (looked.code, looked.events[0]["objects"]) == (0, 2), looked.err
    assert (scheduled.code, scheduled.events[0]["source"]) == (0, f"{source}/"), scheduled.err


@pytest.mark.parametrize("verb", ["cp", "mv", "check", "preflight"])
def test_a_name_that_is_neither_is_told_as_without(cli: Cli, places: Places, tmp_path: Path, verb: str) -> None:
    ran = cli.run(verb, "-r", f"{places.uris[0]}tarbal", str(tmp_path / "out"))

    assert ran.code == 2
    assert f"There is no object {places.uris[0]}tarbal" in ran.err


def test_without_recursive_nothing_changes(cli: Cli, places: Places, tmp_path: Path) -> None:
    ran = cli.run("cp", f"{places.uris[0]}tarball", str(tmp_path / "out"))

    assert ran.code == 2
    assert f"did you mean {places.uris[0]}tarball/" in ran.err
