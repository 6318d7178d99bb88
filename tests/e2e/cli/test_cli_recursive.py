"""``--recursive``: a name that no object has is a prefix, as in the AWS CLI and s5cmd."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, Places

FILLED = ["tarball/a", "tarball/sub/b", "tarball2/c", "file"]

LINES = [
    ("cp SRCtarball OUT/x --recursive", ["x/a", "x/sub/b"]),
    ("cp -R SRCtarball/ OUT/x", ["x/a", "x/sub/b"]),
    ("mv -r SRCtarball OUT/x", ["x/a", "x/sub/b"]),
    ("sync -r SRCtarball OUT/x", ["x/a", "x/sub/b"]),
    ("cp -r SRCtarball DST", ["a", "sub/b"]),
    ("cp -r SRCtarball DSTx", ["x/a", "x/sub/b"]),
    ("cp -r SRCtarball SRCfile DSTx", ["x/a", "x/file", "x/sub/b"]),
    ("cp -r SRCtarball SRCtarball2 OUT/x", ["x/a", "x/c", "x/sub/b"]),
    ("cp -r --dry-run SRCtarball OUT/x", []),
    # An object counts before a prefix, and a wildcard selects by itself.
    ("cp -r SRCfile OUT/x", ["x"]),
    ("cp -r SRCtarball* OUT/x", ["x/tarball/a", "x/tarball/sub/b", "x/tarball2/c"]),
    ("cp -r --files-from LIST SRCtarball OUT/x", ["x/a"]),
    ("run LINES", ["x/a", "x/sub/b", "y"]),
]


@pytest.fixture
def places(versitygw_places: Places) -> Places:
    versitygw_places.fill(FILLED)
    return versitygw_places


def test_a_name_without_an_object_is_a_prefix(
    cli: Cli, versitygw_places: Places, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "list").write_text("a\n")
    for number, (line, arrived) in enumerate(LINES):
        with subtests.test(line):
            own, out, lines = versitygw_places.of_case(number), tmp_path / f"{number}", tmp_path / f"lines{number}"
            own.fill(FILLED)
            names = {"OUT": str(out), "LIST": str(tmp_path / "list"), "LINES": str(lines)}
            listed = ("cp -r SRCtarball OUT/x", "mv -r SRCfile OUT/y")
            lines.write_text("".join(" ".join(own.words(one, **names)) + "\n" for one in listed))

            ran = cli.run(*own.words(line, **names))

            assert ran.code == 0, ran.err
            written = [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()]
            assert sorted([*written, *own.content()]) == arrived


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


def test_a_name_that_is_neither_is_told_as_without(cli: Cli, places: Places, tmp_path: Path) -> None:
    for verb in ("cp", "mv", "check", "preflight"):
        ran = cli.run(verb, "-r", f"{places.uris[0]}tarbal", str(tmp_path / "out"))

        assert ran.code == 2, verb
        assert f"There is no object {places.uris[0]}tarbal" in ran.err, verb


def test_without_recursive_nothing_changes(cli: Cli, places: Places, tmp_path: Path) -> None:
    ran = cli.run("cp", f"{places.uris[0]}tarball", str(tmp_path / "out"))

    assert ran.code == 2
    assert f"did you mean {places.uris[0]}tarball/" in ran.err
