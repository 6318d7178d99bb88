"""An interrupt of the demo, whenever it comes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from seqferry.demo import scenario


def _called_from(file: str) -> Callable[[], bool]:
    """A function of that file that is interrupted; true when it has ended all the same."""
    names: dict[str, Any] = {}
    code = "import signal\ndef interrupted():\n    signal.raise_signal(signal.SIGTERM)\n    return True\n"
    exec(compile(code, file, "exec"), names)
    return names["interrupted"]


def test_an_interrupt_unwinds_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), scenario._terminable():  # pyright: ignore[reportPrivateUsage]
        _called_from("/site-packages/boto3/session.py")()


def test_an_interrupt_that_a_library_in_c_would_swallow_comes_right_after_it() -> None:
    ended: list[bool] = []

    def wait() -> None:
        ended.append(_called_from("/site-packages/awscrt/auth.py")())
        while True:
            signal.pause()

    with pytest.raises(KeyboardInterrupt), scenario._terminable():  # pyright: ignore[reportPrivateUsage]
        wait()
    assert ended
