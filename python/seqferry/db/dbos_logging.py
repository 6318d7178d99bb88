"""Filters for the log of DBOS: only messages that help the operator of Seqferry."""

from __future__ import annotations

import logging


class _NoiseFilter(logging.Filter):
    """Drops tracebacks of cancelled or suspended runs, which the library logs and Seqferry reports elsewhere."""

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
        return True


def quieten_dbos() -> None:
    """Let only warnings of the library through. May be called again: its launch resets some of it."""
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(present, _NoiseFilter) for present in logger.filters):
        logger.addFilter(_NoiseFilter())
