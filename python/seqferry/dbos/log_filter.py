"""Filters for the log of DBOS: only messages that help the operator of Seqferry."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"^[A-Za-z_][\w.]*(?:: .*(?:\n(?!\s*\n)(?!Traceback).*)*)?$", re.MULTILINE)
"""The text of an exception at the end of a traceback, which may go over several lines."""

_BACKGROUND: Final = re.compile(r"\s*\(Background on this error at: \S+\)")
_STATEMENT: Final = re.compile(r"\s*\[SQL: .*", re.DOTALL)
"""The statement that failed, which SQLAlchemy adds to the cause."""

_REPEAT_SECONDS: Final = 60.0
"""Between two messages of one cause. Each queue of a worker has a thread that fails twice a second in an outage."""

_MOST_CAUSES: Final = 256
"""Causes that are remembered: more than the library has places that log, for each of a few kinds of outage."""


@dataclass
class _Cause:
    at: float
    left_out: int = 0


class _Repeats:
    """Lets a message through once a minute, over all threads and queues. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._causes: dict[tuple[str, int, str], _Cause] = {}

    def count_left_out(self, record: logging.LogRecord, text: str) -> int | None:
        """Messages left out since the last one of this cause; None when this one is to be left out as well."""
        # The head names the queue or workflow, and the rest is the cause.
        key = (record.pathname, record.lineno, text.partition(": ")[2] or text)
        with self._lock:
            known = self._causes.pop(key, None)
            if known is not None and record.created - known.at < _REPEAT_SECONDS:
                known.left_out += 1
                self._causes[key] = known
                return None
            if len(self._causes) >= _MOST_CAUSES:
                del self._causes[next(iter(self._causes))]
            self._causes[key] = _Cause(record.created)
            return 0 if known is None else known.left_out


class _NoiseFilter(logging.Filter):
    """Drops tracebacks of cancelled or suspended runs, which the library logs and Seqferry reports elsewhere.

    What is left of a record is one line, once a minute for each cause: its threads log whole tracebacks each time that
    the database is unavailable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repeats = _Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "no longer owned by this execution" in text or "was cancelled during execution" in text:
            return False
        if record.exc_info and str(record.exc_info[1]).endswith("was cancelled"):
            # One line for each batch of a cancelled transfer, as requested.
            return False
        if record.exc_info and "failed to launch" in text:
            return False  # raised as well, and reported by the command
        if record.exc_info and ("Exception encountered" in text or "automatically retried" in text):
            # One line is enough: the workflow records its own failure.
            record.msg, record.args = f"{text.rstrip(':')}: {record.exc_info[1]}", None
            record.exc_info = None
            record.exc_text = None
        text = record.getMessage()
        line = _in_one_line(text)
        left_out = self._repeats.count_left_out(record, line)
        if left_out is None:
            return False
        if left_out:
            line = f"{line} ({left_out} more of this cause since the last such line)"
        record.msg, record.args = line, None
        return True


def _in_one_line(text: str) -> str:
    head, _, traceback = text.partition(_TRACEBACK)
    raised = _RAISED.findall(traceback)
    whole = f"{head.rstrip(': ')}: {raised[-1]}" if raised else head
    return " ".join(_STATEMENT.sub("", _BACKGROUND.sub("", whole)).split())


def quieten_dbos() -> None:
    """Let only warnings of the library through. May be called again: its launch resets some of it."""
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(present, _NoiseFilter) for present in logger.filters):
        logger.addFilter(_NoiseFilter())
