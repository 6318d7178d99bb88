"""Processes that end with the one that has started them, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


def end_with_parent(number: signal.Signals) -> Callable[[], None]:
    """A ``preexec_fn`` of ``subprocess``: the kernel sends the child this signal when the thread that starts it ends.

    The thread has to live as long as the child is wanted.
    """
    parent = os.getpid()

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it has ended before
            os.kill(os.getpid(), number)

    return bind
