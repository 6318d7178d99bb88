"""Displays of a running transfer: plain lines, NDJSON events, or nothing. ``progress_bar`` is that of terminals.

All displays get the same calls. They hold no logic of the transfer and never read the database.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from seqferry.cli.output import text
from seqferry.model.errors import ConfigError
from seqferry.model.models import Status

_PLAIN_INTERVAL: Final = 10.0
"""Seconds between plain lines: rare enough for a log file, often enough to see that it lives (taste)."""
_JSON_INTERVAL: Final = 1.0


class Display(Protocol):
    """Display of one transfer for the user of a command."""

    def show_submission(self, transfer_id: str) -> None:
        """The transfer is recorded: it survives whatever happens to this process."""

    def note(self, message: str) -> None:
        """Something a person may want to know, in one sentence."""

    def preflight(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        """Failures that the preflight foresees: ``facts`` as raw values, ``lines`` as text."""

    def waiting(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        """The transfer waits until a user acts: ``facts`` as raw values, ``lines`` as text."""

    def update(self, status: Status) -> None:
        """Called several times a second."""

    def close(self) -> None:
        """Leave the terminal as it was. May be called twice."""


class QuietDisplay:
    """Errors only, which do not pass through here, and a wait that does not end by itself."""

    def show_submission(self, transfer_id: str) -> None:
        pass

    def note(self, message: str) -> None:
        pass

    def preflight(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        pass

    def waiting(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del facts
        for line in lines:
            say(line)

    def update(self, status: Status) -> None:
        pass

    def close(self) -> None:
        pass


class PlainDisplay:
    """A line on stderr every ten seconds and whenever the state changes."""

    def __init__(self, *, progress: bool = True) -> None:
        self._progress = progress
        self._state = ""
        self._next = 0.0

    def show_submission(self, transfer_id: str) -> None:
        say(f"transfer {transfer_id}")

    def note(self, message: str) -> None:
        say(message)

    def preflight(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del facts
        for line in lines:
            say(line)

    def waiting(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del facts
        for line in lines:
            say(line)

    def update(self, status: Status) -> None:
        if not self._progress or status.ended:
            return
        now = time.monotonic()
        if status.state == self._state and now < self._next:
            return
        self._state = status.state
        self._next = now + _PLAIN_INTERVAL
        from seqferry.cli.output import progress_text  # commands without transfers do without it

        say(f"{text.timestamp(time.time())} {progress_text.progress_line(status)}")

    def close(self) -> None:
        pass


class JsonDisplay:
    """One JSON object per line on stdout (docs/use/output.md describes the events)."""

    def __init__(self, *, progress: bool = True) -> None:
        self._progress = progress
        self._next = 0.0
        self._last: dict[str, Any] | None = None

    def show_submission(self, transfer_id: str) -> None:
        emit("submitted", id=transfer_id)

    def note(self, message: str) -> None:
        pass

    def preflight(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del lines
        emit("preflight", **facts)

    def waiting(self, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
        del lines
        emit("waiting", **facts)

    def update(self, status: Status) -> None:
        now = time.monotonic()
        if not self._progress or status.ended or now < self._next:
            return
        self._next = now + _JSON_INTERVAL
        from seqferry.cli.output import progress_text

        facts = progress_text.progress_facts(status)
        if facts != self._last:
            self._last = facts
            emit("progress", **facts)

    def close(self) -> None:
        pass


def say(message: str) -> None:
    """One line for a person on stderr. ``message`` must be printable already."""
    print(message, file=sys.stderr, flush=True)


def emit(event: str, /, **facts: Any) -> None:
    """One NDJSON event on stdout. All other characters than ASCII are escaped, so a terminal is safe too."""
    line = json.dumps({"event": event, "at": text.timestamp(time.time(), milliseconds=True), **facts}, allow_nan=False)
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as why:
        raise short_write_error(why) from None


def short_write_error(why: OSError) -> ConfigError:
    return ConfigError(f"Short write to standard output: {why.strerror or why}. Free disk space.")


def choose_display(*, as_json: bool, quiet: bool, progress: bool) -> Display:
    """The display for this process's streams: live only on a terminal."""
    if as_json:
        return JsonDisplay(progress=progress and not quiet)
    if quiet:
        return QuietDisplay()
    if progress and sys.stderr.isatty():
        from seqferry.cli.output.progress_bar import LiveDisplay

        live = LiveDisplay()
        if live.usable:
            return live
    return PlainDisplay(progress=progress)
