"""Progress of all unfinished transfers for the streams of all transfers: one thread polls once a second for them.

Nothing is started before the first stream that wants it, and nothing stays after the last one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from seqferry.api.schemas import TransferOut
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.api")

MOST: Final = 100
"""Unfinished transfers whose progress is sent, the newest: a page of the list shows as many."""

_POLL_SECONDS: Final = 1.0


class ProgressFeed:
    """The latest progress of each transfer. Used in the event loop, but for what says so.

    Args:
        announce: called in the event loop when something has changed.
    """

    def __init__(self, service: Service, announce: Callable[[], None]) -> None:
        self._service = service
        self._announce = announce
        self._lock = threading.Lock()
        self._streams = 0
        self._is_polling = False
        self._closing = threading.Event()
        self._frames: Mapping[str, bytes] = {}

    def close(self) -> None:
        """Let the thread end. From any thread."""
        self._closing.set()

    def changed_frames(self, sent: dict[str, bytes], wanted: Collection[str] | None) -> list[bytes]:
        """Frames of these transfers (None: all) that differ from those in ``sent``, which is updated."""
        mine = {each: text for each, text in self._frames.items() if wanted is None or each in wanted}
        fresh = {each: text for each, text in mine.items() if sent.get(each) != text}
        sent.clear()
        sent.update(mine)
        return list(fresh.values())

    @contextmanager
    def watch(self) -> Generator[None]:
        """For as long as a stream wants the progress."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._streams += 1
            if not self._is_polling:
                self._is_polling = True
                self._frames = {}  # of an earlier thread: they may have ended since
                threading.Thread(target=self._poll, args=(loop,), name="seqferry-progress", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1

    def _publish(self, frames: Mapping[str, bytes]) -> None:
        self._frames = frames
        self._announce()

    # --- in the polling thread ---

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        before: dict[str, bytes] = {}
        while True:
            with self._lock:
                if self._streams == 0 or self._closing.is_set():
                    self._is_polling = False
                    return
            try:
                unfinished = self._service.unfinished_states(MOST)
                # Those that have ended since are sent once more, in their last state.
                ids = [*unfinished, *(each for each in before if each not in unfinished)]
                found = {one.id: _frame(TransferOut.of(one)) for one in self._service.statuses(ids)}
            except Exception as why:  # noqa: BLE001 - the streams go on when the database is back
                log.warning("progress cannot be read: %s", why)
            else:
                if found != before:
                    loop.call_soon_threadsafe(self._publish, found)
                before = {each: text for each, text in found.items() if each in unfinished}
            self._closing.wait(_POLL_SECONDS)


def _frame(transfer: TransferOut) -> bytes:
    """A snapshot: without an id, since nothing is lost with it."""
    return b"event: progress\ndata: " + transfer.model_dump_json().encode() + b"\n\n"
