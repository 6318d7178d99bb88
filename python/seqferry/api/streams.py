"""Server-sent events of transfers: one thread polls the database for all streams of the process.

A stream waits in the event loop for the future of its transfer's channel. Events that the channel does not hold any
more are read from the database. Nothing is started before the first stream, and nothing stays after the last one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from seqferry.api.delivery_streams import DeliveryStreams
from seqferry.api.feed import PING_SECONDS, RETRY_MS, Feed, frame
from seqferry.api.schemas import TransferOut
from seqferry.model.models import Event
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.api")

_PROGRESS_SECONDS: Final = 1.0
_KEPT_EVENTS: Final = 200


class EventStream(StreamingResponse):
    """A response that never ends by itself."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncGenerator[bytes], status_code: int = 200) -> None:
        super().__init__(content, status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.aclose()  # otherwise clean-up waits for the garbage collector


class Channel:
    """Latest events and progress of one watched transfer, shared by its streams. Touched in the event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, newest: int) -> None:
        self.streams = 0
        self.newest = newest
        self.progress = b""
        self._kept = deque[Event](maxlen=_KEPT_EVENTS)
        self._loop = loop
        self.changed = loop.create_future()

    def add(self, events: Sequence[Event], progress: bytes | None) -> None:
        self._kept.extend(one for one in events if one.number > self.newest)
        if events:
            self.newest = max(self.newest, events[-1].number)
        if progress is not None:
            self.progress = progress
        self.announce()

    def announce(self) -> None:
        before, self.changed = self.changed, self._loop.create_future()
        if not before.done():
            before.set_result(None)

    def events_after(self, number: int) -> list[Event] | None:
        """The events after this number; None when they have to be read."""
        if number >= self.newest:
            return []
        if not self._kept or self._kept[0].number > number + 1:
            return None
        return [one for one in self._kept if one.number > number]


class EventHub:
    """The streams of one process. Used in the event loop, but for what says so."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[str, Channel] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._is_polling = False
        self.closing = False
        self.feed = Feed(service)
        self.deliveries = DeliveryStreams(service)

    def close(self) -> None:
        """End all streams. From any thread."""
        self.closing = True
        self.feed.close()
        self.deliveries.close()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._announce)

    async def frames(self, transfer_id: str, after: int) -> AsyncGenerator[bytes]:
        """The stream of a transfer, from event number ``after`` + 1 on."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        with self._watching(transfer_id) as channel:
            events = await asyncio.to_thread(self._service.events, transfer_id, after)
            sent = channel.progress or await asyncio.to_thread(self._progress, transfer_id)
            yield b"".join([*map(frame, events), sent])
            after = events[-1].number if events else after
            while not self.closing:
                changed = channel.changed  # before the read, so that nothing is missed
                found = channel.events_after(after)
                events = await asyncio.to_thread(self._service.events, transfer_id, after) if found is None else found
                after = events[-1].number if events else after
                pieces = [frame(event) for event in events]
                if channel.progress not in (b"", sent):
                    sent = channel.progress
                    pieces.append(sent)
                if pieces:
                    yield b"".join(pieces)
                    continue
                done, _ = await asyncio.wait({changed}, timeout=PING_SECONDS)
                if not done:
                    yield b": ping\n\n"

    def _announce(self) -> None:
        for channel in self._channels.values():
            channel.announce()

    @contextmanager
    def _watching(self, transfer_id: str) -> Generator[Channel]:
        loop = self._loop = asyncio.get_running_loop()
        with self._lock:
            channel = self._channels.setdefault(transfer_id, Channel(loop, 0))
            channel.streams += 1
            if not self._is_polling:
                self._is_polling = True
                threading.Thread(target=self._poll, args=(loop,), name="seqferry-events", daemon=True).start()
        try:
            yield channel
        finally:
            with self._lock:
                channel.streams -= 1
                if channel.streams == 0:
                    del self._channels[transfer_id]

    # --- in the polling thread ---

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._service.watch_changes()
        seen: dict[str, int] = {}
        sent: dict[str, bytes] = {}
        next_progress = 0.0
        try:
            while True:
                with self._lock:
                    watched = list(self._channels)
                    if not watched or self.closing:
                        self._is_polling = False
                        return
                seen = {each: number for each, number in seen.items() if each in watched}
                sent = {each: text for each, text in sent.items() if each in watched}
                now = time.monotonic()
                with_progress = now >= next_progress
                if with_progress:
                    next_progress = now + _PROGRESS_SECONDS
                try:
                    self._publish(loop, watched, seen, sent, with_progress=with_progress)
                except Exception as why:  # noqa: BLE001 - the streams go on when the database is back
                    log.warning("events cannot be read: %s", why)
                    time.sleep(_PROGRESS_SECONDS)
                waiting.wait(max(0.0, next_progress - time.monotonic()))
        finally:
            waiting.close()

    def _publish(
        self,
        loop: asyncio.AbstractEventLoop,
        watched: list[str],
        seen: dict[str, int],
        sent: dict[str, bytes],
        *,
        with_progress: bool,
    ) -> None:
        newest = self._service.newest_events(watched)
        texts = self._service.statuses(watched) if with_progress else []
        progress = {status.id: _progress_frame(TransferOut.of(status)) for status in texts}
        for transfer_id in watched:
            events: list[Event] = []
            number = newest.get(transfer_id, 0)
            # Of one that was not seen before, each stream reads for itself what it has not.
            if transfer_id in seen and seen[transfer_id] < number:
                events = self._service.events(transfer_id, seen[transfer_id])
            fresh = progress.get(transfer_id)
            if fresh == sent.get(transfer_id):
                fresh = None
            first = transfer_id not in seen
            seen[transfer_id] = events[-1].number if events else max(number, seen.get(transfer_id, 0))
            if fresh is not None:
                sent[transfer_id] = fresh
            if events or fresh is not None or first:
                loop.call_soon_threadsafe(self._add, transfer_id, events, fresh, seen[transfer_id])

    def _add(self, transfer_id: str, events: list[Event], progress: bytes | None, newest: int) -> None:
        channel = self._channels.get(transfer_id)
        if channel is not None:
            channel.add(events, progress)
            if newest > channel.newest:
                channel.newest = newest
                channel.announce()

    def _progress(self, transfer_id: str) -> bytes:
        return _progress_frame(TransferOut.of(self._service.status(transfer_id)))


def _progress_frame(transfer: TransferOut) -> bytes:
    """A snapshot: without an id, since nothing is lost with it."""
    return b"event: progress\ndata: " + transfer.model_dump_json().encode() + b"\n\n"
