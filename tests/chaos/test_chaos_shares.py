"""Short runs of ``make chaos-shares``: a real gateway, a real server, clients, kills and failing storage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chaos.shares.access import NfsAccess
from chaos.shares.tree import SCENARIOS, Done, File, Tree
from chaos.shares.trial import FIRST, Options, Report, run
from support.run import MissingToolError, Run
from support.servers import S3Server

_MINUTES = 0.2


@pytest.fixture
def run_servers(run: Run, s3server: S3Server) -> tuple[Run, S3Server]:
    return run, s3server


def _run(options: Options, run_: Run, folder: Path) -> Report:
    try:
        return run(options, run_, folder)
    except MissingToolError as missing:
        pytest.skip(str(missing))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_that_was_acknowledged_is_lost(run_servers: tuple[Run, S3Server], seed: int, tmp_path: Path) -> None:
    run_, server = run_servers
    report = _run(Options(seed, "folders", _MINUTES, server.kind, gap=1.0), run_, tmp_path)

    assert not report.findings, report.as_text()
    assert report.kills > 0
    assert set(FIRST) <= report.faults.keys()
    assert report.operations.total() > 0
    assert report.compared > 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_is_lost_is_found(run_servers: tuple[Run, S3Server], seed: int, tmp_path: Path) -> None:
    run_, server = run_servers

    def plant(trees: list[Tree]) -> None:
        files = trees[0].files
        one, other, third, _ = (files[path] for path in sorted(files)[:4])
        one.body += b"more"
        other.mode = 0o4711
        third.modified = (1, 1)
        files["never-written"] = File(b"")
        trees[0].folders.add("never-made")
        # Removed, as the model has it; it is in the bucket.
        files.pop(sorted(files)[3])

    report = _run(Options(seed, "flat", 0.02, server.kind, files=8, plant=plant), run_, tmp_path)

    found = "\n".join(report.findings)
    assert report.lost == 5, report.as_text()
    for text in (
        "acknowledged were", "acknowledged was 4711", "acknowledged was 1970", "a file of 0 bytes is not there",
        "never-made: a folder is not there", "a file that was removed or renamed is there",
    ):  # fmt: skip
        assert text in found, report.as_text()
    assert str(seed) in report.as_text()


def test_operations_follow_from_the_seed_alone() -> None:
    class Acknowledged(Done):
        def __call__(self, call: object, **_: bool) -> tuple[int, int]:
            return 1, 1

    def operations(seed: int) -> list[tuple[str, list[str]]]:
        tree, done = Tree("", SCENARIOS["folders"], random.Random(seed)), list[tuple[str, list[str]]]()
        for _ in range(300):
            kind, paths = tree.draw()
            if kind != "read":
                tree.do(kind, paths, NfsAccess("nfs://nowhere/"), Acknowledged())
            done.append((kind, paths))
        return done

    assert operations(7) == operations(7)
    assert operations(7) != operations(8)
    assert {kind for kind, _ in operations(7)} > {"rename folder", "write the same size and time", "truncate"}
