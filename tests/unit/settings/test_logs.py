"""The log as lines of JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from seqferry.settings import logs

ONE, OTHER = "0b8cf2a1-0000-4000-8000-000000000001", "0b8cf2a1-0000-4000-8000-000000000002"


RecordFormatter = Callable[..., dict[str, Any]]


@pytest.fixture
def said() -> RecordFormatter:
    """Formats a record; returns the line as it is read again."""

    def say(message: str, *args: object, error: BaseException | None = None) -> dict[str, Any]:
        cause = None if error is None else (type(error), error, error.__traceback__)
        record = logging.LogRecord("seqferry.worker", logging.WARNING, "", 0, message, args, cause)
        line = logs.formatter("json").format(record)
        assert "\n" not in line
        return json.loads(line)

    return say


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (f"the workflow of transfer {ONE} was given up", ONE),
        (f"the work {ONE}:b000001 was taken over", ONE),
        (f"worker host-1-{ONE} is ready", None),
        ("listening on http://127.0.0.1:8080", None),
    ],
)
def test_a_line_names_the_transfer_that_it_is_about(said: RecordFormatter, message: str, found: str | None) -> None:
    line = said("%s", message)

    assert line["message"] == message
    assert (line["level"], line["logger"]) == ("warning", "seqferry.worker")
    assert str(line["time"]).endswith("Z")
    assert line.get("transfer") == found


def test_a_line_names_all_transfers_and_holds_the_traceback(said: RecordFormatter) -> None:
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError as error:
        line = said("left: %s, %s", ONE, OTHER, error=error)

    assert (line["transfer"], line["transfers"]) == (ONE, [ONE, OTHER])
    assert "two\nlines" in str(line["exception"])


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="text or json"):
        logs.parse_format("xml")
