"""The one place where an error becomes what the user sees: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
import threading
import traceback
from difflib import SequenceMatcher
from typing import Any, Final

from typer.exceptions import TyperException

from seqferry.cli import exits
from seqferry.cli.output import display, text
from seqferry.model.errors import SeqferryError
from seqferry.model.shortages import find_shortage

_DEBUG: Final = "SEQFERRY_DEBUG"
_DOUBLED: Final = r"([?!)'\"\w])([.?!])\.(?=\s|$)"
"""A full stop after the end of a sentence, as of a cause that brings its own. Not an ellipsis."""
_HIDDEN: Final = frozenset({"--rule"})
"""Options that the program adds by itself: no user types them."""

_VERB_GUESS: Final = r"No such command '(?P<typed>[^']*)'\. Did you mean (?P<guesses>.*)\?$"

_ALIKE: Final = 0.8
"""Least similarity, from 0 to 1, at which a word is taken for a misspelt option."""


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Tell the user about ``error``; returns the exit code. With ``as_json`` also an ``error`` event on stdout."""
    if isinstance(error, TyperException):
        code, message, exit_code = "usage", _usage(error), exits.USAGE
    elif isinstance(error, SeqferryError):
        code, message, exit_code = error.code, error.message, error.exit_code
    elif (short := find_shortage(error)) is not None:
        code, message, exit_code = short.code, short.message, short.exit_code
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        # Standard output is full. The code that writes a file reports a full disk itself.
        full = display.short_write_error(error)
        code, message, exit_code = full.code, full.message, full.exit_code
    elif isinstance(error, KeyboardInterrupt):
        code, message, exit_code = "interrupted", "interrupted", exits.INTERRUPTED
    else:
        debug = "" if _debugging() else f" (set {_DEBUG}=1 to see where)"
        kind = type(error).__name__
        code, message, exit_code = "internal", f"unexpected {kind}: {_first_line(error)}{debug}", exits.FAILED
    if _debugging():
        traceback.print_exception(error)
    message = re.sub(_DOUBLED, r"\1\2", message)
    display.say(f"seqferry: {text.printable(message)}")
    if as_json:
        facts = {
            name: getattr(error, name) for name in ("error_class", "error_code", "operation") if hasattr(error, name)
        }
        display.emit("error", code=code, message=message, exit_code=exit_code, **facts)
    return exit_code


def _debugging() -> bool:
    return os.environ.get(_DEBUG, "") not in {"", "0"}


def _usage(error: TyperException) -> str:
    """Typer's message with the way to the help of the command it is about."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "seqferry"
    guesses: list[str] | None = getattr(error, "possibilities", None)
    if guesses:
        typed = str(getattr(error, "option_name", ""))
        kept = [one for one in guesses if one not in _HIDDEN and _is_typo(typed, one)]
        setattr(error, "possibilities", kept)  # noqa: B010 - of one subclass
    message = re.sub(_VERB_GUESS, _likely_verbs, error.format_message().rstrip(".")).replace(": Value error, ", ": ")
    return f"{_sentence(message)} See `{where} --help`."


def _sentence(message: str) -> str:
    """A message that ends as a sentence does."""
    return message if message.endswith(("?", "!")) else f"{message.rstrip('.')}."


def _likely_verbs(found: re.Match[str]) -> str:
    """Message about an unknown verb, with those of Click's guesses that it is likely to be."""
    typed = found["typed"]
    likely = [one for one in re.findall(r"'([^']*)'", found["guesses"]) if _is_typo(typed, one)]
    guess = f" Did you mean {', '.join(map(repr, likely))}?" if likely else ""
    return f"No such command '{typed}'.{guess}"


def _is_typo(typed: str, option: str) -> bool:
    """True when a word is likely to be this option, misspelt: `--detach` for `--acl` would be a wrong guess."""
    return SequenceMatcher(None, typed.lstrip("-"), option.lstrip("-")).ratio() >= _ALIKE


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else "(no message)"


class _OneLine(logging.Formatter):
    """Formatter of what libraries log beside a command: one line, with the cause in place of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        why = record.exc_info[1] if record.exc_info else None
        if why is None:
            return message
        short = find_shortage(why)
        return f"{message.rstrip(':.')}: {type(why).__name__ if short is None else short.message}"


def shorten_logs() -> None:
    """Keep tracebacks out of a command's log, unless debugging is requested."""
    if logging.lastResort is None or _debugging():
        return
    logging.lastResort.setFormatter(_OneLine())
    usual = threading.excepthook

    def of_thread(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is None or find_shortage(failed.exc_value) is None:
            usual(failed)

    # A shortage meets all threads alike; the command tells of it once, at its end.
    threading.excepthook = of_thread


def open_closed_streams() -> None:
    """Open the null device in place of a stdout or stderr that the caller has closed: writing to it must not fail."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - lives until the process ends


class _LossyStderr(io.FileIO):
    """Standard error of which messages are lost while its disk is full or its terminal is gone: the work goes on.

    A reader that has gone away ends the command, as it ends others.
    """

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            written = None
        # None: it takes nothing at this moment, and nothing waits for it.
        return memoryview(data).nbytes if written is None else written


def ignore_stderr_errors() -> None:
    """Continue the work when stderr cannot be written."""
    said = sys.stderr
    if said is sys.__stderr__ and isinstance(said, io.TextIOWrapper):
        said.flush()
        written = io.BufferedWriter(_LossyStderr(said.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(written, encoding=said.encoding, errors=said.errors, line_buffering=True)


def flush() -> None:
    """Flush stdout, so that its text has left the process.

    Raises:
        ConfigError: stdout takes no more; BrokenPipeError: its reader has gone.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as why:
        raise display.short_write_error(why) from None
    sys.stderr.flush()


def discard_stdout() -> int:
    """The reader of stdout went away (``| head``): nothing more can be said there, and that is not worth a message."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives until the process ends
    return exits.FAILED
