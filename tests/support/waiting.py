"""Waiting for something to become true, with a deadline."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import TypeVar

from support.times import measured

T = TypeVar("T")


def eventually(
    check: Callable[[], T],
    *,
    what: str,
    deadline: float = 30.0,
    every: float = 0.05,
    quiet: tuple[type[Exception], ...] = (),
) -> T:
    """The first true value that ``check`` returns.

    Args:
        what: the end of "waited N s for ...".
        deadline: seconds.
        every: seconds between attempts.
        quiet: errors of these types count as not yet.

    Raises:
        TimeoutError: the deadline passed; the cause is the last quiet error, if there was one.
    """
    with measured("wait for a condition"):
        return _eventually(check, what, deadline, every, quiet)


def is_readable(file: int, seconds: float) -> bool:
    """Whether a descriptor of any number can be read, or is at its end, within these seconds."""
    with selectors.PollSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _eventually(
    check: Callable[[], T], what: str, deadline: float, every: float, quiet: tuple[type[Exception], ...]
) -> T:
    until = time.monotonic() + deadline
    last: Exception | None = None
    while True:
        try:
            value = check()
            if value:
                return value
        except quiet as error:
            last = error
        if time.monotonic() >= until:
            raise TimeoutError(f"waited {deadline:g} s for {what}") from last
        time.sleep(every)
