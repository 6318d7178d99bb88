"""The signals of a terminal, for the processes that tests start."""

from __future__ import annotations

import signal
from typing import Final

OF_TERMINALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def heed_signals_in_children() -> None:
    """Let processes that this one starts heed the signals of a terminal, also where this one has them ignored.

    A run under nohup or behind a shell has some ignored, and processes inherit that. A handler is not inherited: the
    started process has the default, and this one still ignores the signal.
    """
    for number in OF_TERMINALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
