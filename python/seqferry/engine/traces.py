"""Traces of the engine: where they are written, and the transfer that a thread works for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from seqferry import _native
from seqferry.model.errors import ConfigError

_trace: str | None = None


def trace(target: str | None) -> None:
    """Write spans of the engine as lines of JSON to ``stderr`` or to a file, from now on; None changes nothing.

    Raises:
        ConfigError: the file cannot be written, or another one was named before.
    """
    global _trace
    if target is None or target == _trace:
        return
    try:
        _native.start_trace(None if target == "stderr" else target)
    except OSError as why:
        raise ConfigError(
            f"Cannot write a trace to {target}: {why}. Name a file that can be written with SEQFERRY_TRACE, or stderr."
        ) from None
    _trace = target


_transfer: Final = ContextVar("_transfer", default="")


@contextmanager
def trace_as(transfer: str) -> Generator[None]:
    """Traces of what this thread lists meanwhile name this transfer."""
    token = _transfer.set(transfer)
    try:
        yield
    finally:
        _transfer.reset(token)


def traced_transfer() -> str:
    """The transfer that this thread lists for; empty for none."""
    return _transfer.get()
