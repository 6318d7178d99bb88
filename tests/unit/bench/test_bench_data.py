"""The data that is moved, what a run of a command costs, and what is wrong with files that are not what was made."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

import pytest

from seqferry.bench import measure, plots, verify
from seqferry.bench.workload import PIECE, Digests, Workload, pieces, random_pieces, write

WORK = Workload(3, 1000)


@pytest.fixture
def made(tmp_path: Path) -> Digests:
    return write(tmp_path, WORK, random_pieces(7))


def test_the_same_seed_makes_the_same_files_and_no_two_are_alike(tmp_path: Path, made: Digests) -> None:
    (tmp_path / "again").mkdir()
    (tmp_path / "other").mkdir()

    assert write(tmp_path / "again", WORK, random_pieces(7)) == made
    assert write(tmp_path / "other", WORK, random_pieces(8)) != made
    assert len(set(made.values())) == 3
    content = (tmp_path / "000000.bin").read_bytes()
    assert len(zlib.compress(content)) >= len(content)


def test_a_big_file_is_known_by_pieces() -> None:
    assert list(pieces(PIECE + 1)) == [(0, PIECE), (PIECE, 1)]


def test_what_was_made_is_right(tmp_path: Path, made: Digests) -> None:
    assert verify.files(tmp_path, WORK.sizes(), made) is None


def _spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda folder: _spoil(folder / "000001.bin"), "000001.bin differs"),
        (lambda folder: (folder / "000002.bin").unlink(), "1 missing, first 000002.bin"),
        (lambda folder: (folder / "more").write_bytes(b""), "unexpected, first more"),
        (lambda folder: os.truncate(folder / "000000.bin", 999), "of another size, first 000000.bin"),
    ],
)
def test_what_is_wrong_is_reported(harm: object, expected: str, tmp_path: Path, made: Digests) -> None:
    harm(tmp_path)  # type: ignore[operator]

    assert expected in str(verify.files(tmp_path, WORK.sizes(), made))


def _run(tmp_path: Path, code: str, timeout: float = 60) -> measure.Cost:
    environment = {"PATH": os.environ["PATH"]}
    return measure.run([sys.executable, "-c", code], environment=environment, folder=tmp_path, timeout=timeout)


def test_a_command_is_measured_with_its_children(tmp_path: Path) -> None:
    cost = _run(tmp_path, "import subprocess, sys; subprocess.run([sys.executable, '-c', 'bytearray(64 << 20)'])")

    assert cost.status == 0
    assert cost.cpu_s > 0
    assert cost.wall_s > 0
    assert cost.peak_bytes is not None
    assert list(tmp_path.iterdir()) == []


def test_what_a_command_said_last_is_kept(tmp_path: Path) -> None:
    cost = _run(tmp_path, "print('x' * 10000); print('the end'); raise SystemExit(7)")

    assert cost.status == 7
    assert cost.output.endswith("the end")
    assert len(cost.output) <= 4000


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    cost = _run(tmp_path, "import subprocess; subprocess.run(['sleep', '600'])", timeout=0.1)

    assert cost.timed_out
    assert cost.status < 0


def test_without_matplotlib_there_is_a_line_instead_of_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert plots.draw({"results": [], "asked": {"directions": []}}) == ([], plots.MISSING)
