"""Errors of a system that gives no more, as distinct from all others."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from seqferry.model.errors import SeqferryError
from seqferry.model.shortages import can_open_files, find_shortage


def _disk(number: int, name: str | None = "/var/state/x.db") -> OSError:
    return OSError(number, os.strerror(number), name) if name is not None else OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "no more memory"),
        (RuntimeError("can't start new thread"), "no more memory or threads"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no more memory"),
        (OSError(errno.EMFILE, "Too many open files"), "limit of open files"),
        (OSError(errno.ENFILE, "Too many open files in system"), "limit of open files"),
        (ValueError("dispatch failure: Too many open files (os error 24)"), "limit of open files"),
        (_disk(errno.ENOSPC), "Cannot write /var/state/x.db: No space left on device."),
        (_disk(errno.EDQUOT), "Cannot write /var/state/x.db"),
        (_disk(errno.EROFS), "Cannot write /var/state/x.db: Read-only file system."),
        (_disk(errno.EIO), "Cannot write /var/state/x.db"),
    ],
)
def test_a_refusal_of_the_system_gets_words_and_a_next_step(error: BaseException, said: str) -> None:
    found = find_shortage(error)

    assert found is not None
    assert said in found.message
    assert found.message.count("Traceback") == 0


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        RuntimeError("can't pickle"),
        KeyError("Too many"),
        OSError(errno.ENOENT, "No such file or directory", "/x"),
        PermissionError(errno.EACCES, "Permission denied", "/x"),
        _disk(errno.ENOSPC, None),  # it is not known of which file
    ],
)
def test_other_errors_are_left_alone(error: BaseException) -> None:
    assert find_shortage(error) is None


@pytest.mark.parametrize("is_cause", [True, False])
def test_the_refusal_is_found_behind_the_error_that_it_led_to(is_cause: bool) -> None:
    outer, middle = ValueError("outer"), SeqferryError("middle")
    outer.__context__ = middle
    if is_cause:
        middle.__cause__, middle.__context__ = MemoryError(), KeyError()
    else:
        middle.__context__ = MemoryError()

    assert find_shortage(outer) is not None


def test_a_ring_of_errors_is_looked_at_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    assert find_shortage(one) is None


def test_a_process_that_may_open_files_is_not_short_of_them() -> None:
    before = list(Path("/proc/self/fd").iterdir())

    assert can_open_files(3)
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)
