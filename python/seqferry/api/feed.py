"""The stream of events of all transfers, and the form of events in streams.

One thread polls for new events for all streams of the process. A stream that is up to date sends what the thread has
read; one that resumes, or whose client is slow, reads the difference between its position and the thread's from the
database. Nothing is started before the first stream, and nothing stays after the last one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, Final

from seqferry.api.progress_feed import ProgressFeed
from seqferry.db.feed import MAX_DATA, FeedEvent, Position
from seqferry.model.messages.events import event_text
from seqferry.model.models import Event
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.api")

RETRY_MS: Final = 2000
PING_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 5.0
"""Between polls without a notification of a change: one may be lost with its connection."""
_RETRY_SECONDS: Final = 1.0
_KEPT_EVENTS: Final = 200


class Feed:
    """The streams over all transfers of one process. Used in the event loop, but for what says so."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._streams = 0
        self._is_polling = False
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Future[None] | None = None
        # The thread's position, the number of events behind it, and the last of them.
        self._position: Position | None = None
        self._count = 0
        self._kept = deque[FeedEvent](maxlen=_KEPT_EVENTS)
        self._progress = ProgressFeed(service, self._announce)

    def close(self) -> None:
        """End all streams. From any thread."""
        self._closing = True
        self._progress.close()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._announce)

    async def frames(
        self, wanted: frozenset[str] | None, after: Position | None, *, progress: bool = False
    ) -> AsyncGenerator[bytes]:
        """The stream of the events of these transfers (None: all) behind a position (None: from now on).

        With ``progress`` also the transfers themselves that have not ended, as they change.
        """
        yield f"retry: {RETRY_MS}\n\n".encode()
        sent: dict[str, bytes] = {}
        with self._watching(), self._progress.watch() if progress else nullcontext():
            while self._position is None and not self._closing:
                if not await self._wait(self._future()):
                    yield b": ping\n\n"
            mine = after
            count = None if after is not None else self._count  # None: behind what is kept
            if mine is None and self._position is not None:
                mine = self._position
                yield _position_frame(mine)
            while mine is not None and not self._closing:
                changed = self._future()  # before the read, so that nothing is missed
                found: list[FeedEvent] = []
                if count is not None and self._count - count <= len(self._kept):
                    fresh = self._count - count
                    found = list(self._kept)[len(self._kept) - fresh :]
                    mine, count = (found[-1].position if found else mine), self._count
                else:
                    until, there = self._position, self._count
                    if until is not None:
                        found, mine = await asyncio.to_thread(self._service.feed_events, mine, until, wanted)
                        count = there if mine is until else None
                pieces = [_feed_frame(one) for one in found if wanted is None or one.transfer_id in wanted]
                if progress:
                    pieces += self._progress.changed_frames(sent, wanted)
                if pieces:
                    yield b"".join(pieces)
                elif count is not None and not await self._wait(changed):
                    yield b": ping\n\n"

    async def _wait(self, changed: asyncio.Future[None]) -> bool:
        done, _ = await asyncio.wait({changed}, timeout=PING_SECONDS)
        return bool(done)

    def _future(self) -> asyncio.Future[None]:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def _announce(self) -> None:
        before, self._changed = self._changed, None
        if before is not None and not before.done():
            before.set_result(None)

    def _begin(self, position: Position) -> None:
        """Take over the position of a thread that has just started: all streams are out of step."""
        self._kept.clear()
        self._count += 1
        self._position = position
        self._announce()

    def _publish(self, events: list[FeedEvent], position: Position) -> None:
        self._kept.extend(events)
        self._count += len(events)
        self._position = position
        self._announce()

    @contextmanager
    def _watching(self) -> Generator[None]:
        loop = self._loop = asyncio.get_running_loop()
        with self._lock:
            self._streams += 1
            if not self._is_polling:
                self._is_polling = True
                self._position = None  # of a thread that ended some time ago
                threading.Thread(target=self._poll, args=(loop,), name="seqferry-feed", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1

    # --- in the polling thread ---

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._service.watch_changes()
        position: Position | None = None
        try:
            while True:
                with self._lock:
                    if self._streams == 0 or self._closing:
                        self._is_polling = False
                        return
                try:
                    until = self._service.feed_position()
                    position = self._read_until(loop, position, until)
                except Exception as why:  # noqa: BLE001 - the streams go on when the database is back
                    log.warning("events cannot be read: %s", why)
                    time.sleep(_RETRY_SECONDS)
                waiting.wait(_POLL_SECONDS)
        finally:
            waiting.close()

    def _read_until(self, loop: asyncio.AbstractEventLoop, position: Position | None, until: Position) -> Position:
        if position is None:
            loop.call_soon_threadsafe(self._begin, until)
            return until
        while position != until:
            events, position = self._service.feed_events(position, until)
            loop.call_soon_threadsafe(self._publish, events, position)
        return position


def frame(event: Event, identity: str | None = None, **facts: str) -> bytes:
    """A message of a stream: its ``id`` is the number of the event unless another one is given."""
    text = json.dumps(event.data)
    if len(text) > MAX_DATA:
        text = json.dumps({"left_out": len(text)})
    known: dict[str, Any] = {
        **facts,
        "number": event.number,
        "at": datetime.fromtimestamp(event.at, UTC).isoformat().replace("+00:00", "Z"),
        "kind": event.kind,
        "text": event_text(event.kind, event.data),
        "actor": event.actor,
        "hash": event.hash,
    }
    body = f'{json.dumps(known)[:-1]}, "data": {text}}}'
    return f"id: {identity or event.number}\nevent: {event.kind}\ndata: {body}\n\n".encode()


def _feed_frame(one: FeedEvent) -> bytes:
    return frame(one.event, str(one.position), transfer_id=one.transfer_id)


def _position_frame(position: Position) -> bytes:
    """Frame with the position where the stream begins: a client cut off before the first event resumes there."""
    return f"id: {position}\nevent: position\ndata: {{}}\n\n".encode()
