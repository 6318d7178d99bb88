"""Objects that go to standard output or come from standard input."""

from __future__ import annotations

from seqferry import _native
from seqferry.engine.native_calls import translate_errors


class Pipe:
    """An object that goes to standard output, or comes from standard input."""

    def __init__(self, native: _native.Pipe) -> None:
        self._native = native

    def wait(self, seconds: float) -> bool:
        """True when it has ended, after waiting at most so long."""
        return self._native.wait(seconds)

    def cancel(self) -> None:
        """Stop it. An open upload is aborted before it ends."""
        self._native.cancel()

    @property
    def bytes(self) -> int:
        """Bytes that have gone through."""
        return self._native.bytes

    def end(self) -> _native.PipeReport | None:
        """Report of its end; None when it was cancelled. To be asked once, after it has ended.

        Raises:
            MismatchError: the bytes are not what the storage promises, or what was sent.
            StorageError: another failure of the storage.
            OSError: standard input or output failed; BrokenPipeError: the reader has gone.
        """
        with translate_errors():
            return self._native.end()
