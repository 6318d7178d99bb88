"""The log of processes that stay: lines for people, or a line of JSON each, with the id of the transfer it is about."""

from __future__ import annotations

import json
import logging
import re
import time
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

LogFormat = Literal["text", "json"]

_TRANSFER: Final = r"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"
_WORKER: Final = r"\bworker \S+"
"""Workers are named by ids of the same form."""


def parse_format(text: str) -> LogFormat:
    """The name of a format.

    Raises:
        ValueError: no format has this name.
    """
    for known in get_args(LogFormat):
        if text == known:
            return known
    raise ValueError(f"'{text}' is not a format; write text or json")


def to_stderr(form: LogFormat) -> None:
    """Have the process say on stderr when it starts, stops and meets trouble, with times in UTC."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    # The library of the queue gives its logger a handler and a form of its own where it finds none.
    for name, level in (("seqferry", logging.INFO), ("dbos", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False


def formatter(form: LogFormat) -> logging.Formatter:
    """The formatter that makes lines of this form."""
    return _JsonFormatter() if form == "json" else _text()


def _text() -> logging.Formatter:
    form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    return form


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        found = list(dict.fromkeys(re.findall(_TRANSFER, re.sub(_WORKER, "", message))))
        if found:
            facts["transfer"] = found[0]
        if len(found) > 1:
            facts["transfers"] = found
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=True)
