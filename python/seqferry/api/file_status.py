"""The answer of S3Mirror's ``/transfer_status`` as JSON text, in pieces that are mostly kept for the next answer.

The rows of a batch that has ended do not change: its text is written once. Invariant: the counts of an answer
are those of the files that are written before them; memory is bounded, whatever the number of objects.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from seqferry.api.problems import shorten
from seqferry.db.file_rows import BatchState
from seqferry.model.models import Status
from seqferry.service.service import Service

_MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of texts that are kept, for all transfers together: those of some 450,000 files."""

_BYTES_OF_FILE: Final = 140
"""Bytes of the text of a file, about: the texts of a transfer that would not fit are not kept."""

_GIB: Final = 1024**3
_LEVEL: Final = 1
"""Of gzip: the fastest makes a twelfth of these texts, and higher levels take several times as long."""

_WORDS: Final = {
    "done": "SUCCESS",
    "skipped": "SUCCESS",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
}
_text: Final[Callable[[str], str]] = json.JSONEncoder().encode


class _Piece(NamedTuple):
    """The files of a batch as text, and what they add up to."""

    text: bytes
    files: int
    transferred: int
    errors: int
    bytes: int


class FileStatus:
    """One for each server. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], _Piece] = OrderedDict()
        self._bytes = 0

    def answer(self, service: Service, status: Status) -> FileAnswer:
        """The answer for a transfer as it is now; nothing is read of its objects before it is iterated."""
        return FileAnswer(self, service, status, service.batches(status.id))

    def piece(self, service: Service, status: Status, of: BatchState, *, keep: bool) -> _Piece:
        """The files of a batch, written anew unless that has ended."""
        name = status.id, of.number
        with self._lock:
            if (known := self._kept.get(name)) is not None:
                self._kept.move_to_end(name)
                return known
        made = _piece(service, status, of)
        # What was cancelled is an error to S3Mirror where the transfer has failed, which is known at its end.
        if keep and of.state == "ended" and (status.ended or not of.cancelled):
            self._keep(name, made)
        return made

    def _keep(self, name: tuple[str, int], made: _Piece) -> None:
        with self._lock:
            if name not in self._kept:
                self._kept[name] = made
                self._bytes += len(made.text)
            while self._bytes > _MOST_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= len(dropped.text)


class FileAnswer:
    """An answer that is yet to be written: iterating gives its text."""

    def __init__(self, texts: FileStatus, service: Service, status: Status, batches: Sequence[BatchState]) -> None:
        self._texts, self._service, self._status, self._batches = texts, service, status, batches

    @property
    def etag(self) -> str:
        """Equal for answers whose files are equal: as long as a transfer runs, the rate alone may differ."""
        status = self._status
        facts = repr((status.id, status.state, status.planned, status.totals, status.error_message, self._batches))
        return f'W/"{hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'

    def __iter__(self) -> Iterator[bytes]:
        status = self._status
        files = transferred = errors = moved = 0
        keep = status.totals.objects * _BYTES_OF_FILE <= _MOST_BYTES
        separator = b'{"filewise":['
        for one in self._batches:
            piece = self._texts.piece(self._service, status, one, keep=keep)
            if not piece.files:
                continue
            yield separator + piece.text
            separator = b","
            files += piece.files
            transferred += piece.transferred
            errors += piece.errors
            moved += piece.bytes
        if not files:
            yield separator
            if status.state == "failed":
                # The source could not be listed. Scripts poll until ``transferred`` plus ``errors`` is ``files``: one
                # of each, of an unnamed file, lets them end, and with an error.
                files = errors = 1
        seconds = (status.ended_at or time.time()) - (status.started_at or status.created_at)
        # The status knows parts of unfinished files, the list what has ended since the status was taken.
        rate = max(moved, status.totals.bytes_done) / _GIB / seconds if seconds > 0 else 0.0
        rest = {"files": files, "transferred": transferred, "errors": errors, "rate": rate}
        yield ("]," + json.dumps(rest).removeprefix("{")).encode()


def compress(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same as one gzip stream."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _piece(service: Service, status: Status, of: BatchState) -> _Piece:
    strip, failed = status.spec.strip, status.state == "failed"
    # That an object is under way is not written for each.
    pending = "PENDING" if of.state == "active" else "ENQUEUED"
    counts = {"SUCCESS": 0, "ERROR": 0}
    moved = 0
    texts: list[str] = []
    rows: Sequence[Any] = service.batch_files(status.id, of.number)
    for key, size, state, started_at, ended_at, message in rows:
        word = _WORDS.get(state, pending)
        if state == "cancelled" and failed:
            # S3Mirror knows no job-wide error: to it, each file that was not copied for that has failed.
            word, message = "ERROR", message or status.error_message
        ended = "null"
        if word == "SUCCESS":
            moved += size
            ended = _milliseconds(ended_at)
        if word in counts:
            counts[word] += 1
        error = '"None"' if message is None else _text(shorten(message))
        texts.append(
            f'{{"file": {_text(key.removeprefix(strip))}, "size": {size / _GIB!r}, "status": "{word}", '
            f'"tstart": {_milliseconds(started_at)}, "tend": {ended}, "error": {error}}}'
        )
    return _Piece(",".join(texts).encode(), len(texts), counts["SUCCESS"], counts["ERROR"], moved)


def _milliseconds(seconds: float | None) -> str:
    return "null" if seconds is None else str(round(seconds * 1000))
