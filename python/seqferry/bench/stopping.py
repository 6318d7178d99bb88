"""The end of a bench by a signal: tidied up, as by Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator


@contextlib.contextmanager
def exit_as_interrupted() -> Generator[None]:
    """Lets a service manager's SIGTERM and a closed terminal end the bench as Ctrl-C does: tidied up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
