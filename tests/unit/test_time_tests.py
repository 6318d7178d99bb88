"""Tables of where the time of a test run goes."""

from __future__ import annotations

import time

import pytest
import time_tests as tool

from support import times


def test_seconds_of_rust_tests_are_those_of_their_binaries() -> None:
    lines = [
        "     Running unittests src/lib.rs (target/release/deps/seqferry_store-0123456789abcdef)",
        "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s",
        "     Running tests/main.rs (target/release/deps/jobs-fedcba9876543210)",
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.50s",
        "   Doc-tests seqferry_store",
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
    ]

    assert tool.rust_times(lines) == {"seqferry_store": 1.25, "jobs": 2.5, "doctests": 0.5}


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("tests/unit/test_docs.py", "unit"),
        ("tests/unit/spec/test_pack.py", "unit/spec"),
        ("tests/e2e/unpack/deeper/test_x.py", "e2e/unpack"),
        ("tests/test_x.py", "tests"),
    ],
)
def test_a_file_counts_for_its_folder(file: str, folder: str) -> None:
    assert tool.folder_of(file) == folder


def test_phases_of_a_test_are_added_up_and_it_counts_once() -> None:
    figures = {
        "seconds": {"setup tests/unit/test_a.py": 1.0, "call tests/unit/test_a.py": 20.0, "fixture service": 3.0},
        "counts": {"setup tests/unit/test_a.py": 2, "call tests/unit/test_a.py": 2, "fixture service": 4},
    }

    lines = tool.pytest_tables(figures)

    assert "| unit | 2 | 21 |" in lines
    assert "| service | 4 | 3 |" in lines


def test_rows_beyond_the_most_are_summed_up() -> None:
    seconds = {"a": 5.0, "b": 3.0, "c": 2.0}

    assert tool.rows(seconds, dict.fromkeys(seconds, 2), most=1) == ["| a | 2 | 5 |", "| 2 others | 4 | 5 |"]


def test_a_block_is_counted_without_the_blocks_within_it() -> None:
    with times.measured("outer of a test"), times.measured("inner of a test"):
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            pass

    assert times._seconds["inner of a test"] >= 0.05
    assert times._seconds["outer of a test"] < 0.05
