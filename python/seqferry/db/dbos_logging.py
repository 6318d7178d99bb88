"""Filters for the log of DBOS: only messages that help the operator of Seqferry."""

from __future__ import annotations

import logging
import re
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"^[A-Za-z_][\w.]*(?:: .*(?:\n(?!\s*\n)(?!Traceback).*)*)?$", re.MULTILINE)
"""The text of an exception at the end of a traceback, which may go over several lines."""

_BACKGROUND: Final = re.compile(r"\s*\(Background on this error at: \S+\)")


class _NoiseFilter(logging.Filter):
    """Drops tracebacks of cancelled or suspended runs, which the library logs and Seqferry reports elsewhere.

    What is left of a record is one line: its threads log whole tracebacks each time that the database is away.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "no longer owned by this execution" in text or "was cancelled during execution" in text:
            return False
        if record.exc_info and str(record.exc_info[1]).endswith("was cancelled"):
            # One line for each batch of a cancelled transfer, which is what was asked for.
            return False
        if record.exc_info and "failed to launch" in text:
            return False  # raised as well, and reported by the command
        if record.exc_info and ("Exception encountered" in text or "automatically retried" in text):
            # One line is enough: the workflow records its own failure.
            record.msg, record.args = f"{text.rstrip(':')}: {record.exc_info[1]}", None
            record.exc_info = None
            record.exc_text = None
        text = record.getMessage()
        if _TRACEBACK in text or "\n" in text:
            record.msg, record.args = _in_one_line(text), None
        return True


def _in_one_line(text: str) -> str:
    head, _, traceback = text.partition(_TRACEBACK)
    raised = _RAISED.findall(traceback)
    whole = f"{head.rstrip(': ')}: {raised[-1]}" if raised else head
    return " ".join(_BACKGROUND.sub("", whole).split())


def quieten_dbos() -> None:
    """Let only warnings of the library through. May be called again: its launch resets some of it."""
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(present, _NoiseFilter) for present in logger.filters):
        logger.addFilter(_NoiseFilter())
