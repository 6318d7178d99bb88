"""Streams for holders of share links: one thread renders the pages of all watched links, once a second.

However many people watch a link, its page is made once. Nothing is started before the first stream, and nothing stays
after the last one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from seqferry.api.delivery_schemas import page_out
from seqferry.api.feed import PING_SECONDS, RETRY_MS
from seqferry.model.errors import NotFoundError
from seqferry.service import share_links
from seqferry.service.deliveries import Deliveries, DeliveryPage
from seqferry.service.service import Service
from seqferry.service.share_links import ShareLink

log: Final = logging.getLogger("seqferry.api")

_POLL_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.1
"""Between two polls that take long: others need the database as well."""

_GONE: Final = b"event: gone\ndata: {}\n\n"


class _Message(NamedTuple):
    """A page as a message. ``facts`` are without times that move by themselves: while they stay, nothing is new."""

    facts: DeliveryPage
    frame: bytes

    @classmethod
    def of(cls, page: DeliveryPage) -> _Message:
        facts = replace(page, now=0.0, deliveries=[replace(one, whole_by=None) for one in page.deliveries])
        return cls(facts, b"event: delivery\ndata: " + page_out(page).model_dump_json().encode() + b"\n\n")


@dataclass(slots=True)
class _Channel:
    """The newest message of one watched link; ``gone``: the link is not valid any more."""

    link: ShareLink
    changed: asyncio.Future[None]
    streams: int = 0
    message: _Message | None = None
    gone: bool = False


class DeliveryStreams:
    """The streams of one process. Used in the event loop, but for what says so."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels: dict[str, _Channel] = {}
        self._lock = threading.Lock()
        self._is_polling = False
        self._closing = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pages: Final = Deliveries(service)

    def close(self) -> None:
        """End all streams. From any thread."""
        self._closing.set()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._announce_all)

    async def frames(self, link: ShareLink) -> AsyncGenerator[bytes]:
        """The stream of a link: its page immediately, then after each change, until the link is not valid any more."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        with self._watching(link) as channel:
            sent = channel.message
            if sent is None:
                sent = _Message.of(await asyncio.to_thread(self.pages.page, link))
            yield sent.frame
            while not self._closing.is_set():
                changed = channel.changed  # before the read, so that nothing is missed
                if channel.gone:
                    yield _GONE
                    return
                if channel.message is not None and channel.message.facts != sent.facts:
                    sent = channel.message
                    yield sent.frame
                    continue
                done, _ = await asyncio.wait({changed}, timeout=PING_SECONDS)
                if not done:
                    yield b": ping\n\n"

    @contextmanager
    def _watching(self, link: ShareLink) -> Generator[_Channel]:
        loop = self._loop = asyncio.get_running_loop()
        with self._lock:
            channel = self._channels.get(link.id)
            if channel is None or channel.gone:
                channel = self._channels[link.id] = _Channel(link, loop.create_future())
            channel.streams += 1
            if not self._is_polling:
                self._is_polling = True
                threading.Thread(target=self._poll, args=(loop,), name="seqferry-deliveries", daemon=True).start()
        try:
            yield channel
        finally:
            with self._lock:
                channel.streams -= 1
                if channel.streams == 0 and self._channels.get(link.id) is channel:
                    del self._channels[link.id]

    def _announce_all(self) -> None:
        for channel in self._channels.values():
            self._announce(channel)

    def _announce(self, channel: _Channel) -> None:
        before, channel.changed = channel.changed, asyncio.get_running_loop().create_future()
        if not before.done():
            before.set_result(None)

    def _publish(self, channel: _Channel, message: _Message | None) -> None:
        channel.gone, channel.message = message is None, message
        self._announce(channel)

    # --- in the polling thread ---

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            began = time.monotonic()
            with self._lock:
                watched = [one for one in self._channels.values() if not one.gone]
                if not self._channels or self._closing.is_set():
                    self._is_polling = False
                    return
            for channel in watched:
                try:
                    message = self._make_message(channel.link)
                except Exception as why:  # noqa: BLE001 - the streams go on when the database is back
                    log.warning("a delivery cannot be read: %s", why)
                    continue
                before = channel.message
                if message is None or before is None or message.facts != before.facts:
                    loop.call_soon_threadsafe(self._publish, channel, message)
            self._closing.wait(max(_POLL_SECONDS - (time.monotonic() - began), _SHORTEST_SECONDS))

    def _make_message(self, link: ShareLink) -> _Message | None:
        """The message of a link, None when it is not valid any more."""
        try:
            still = share_links.find_link(self._service, link.id)
        except NotFoundError:
            return None
        return _Message.of(self.pages.page(still)) if still.state == "active" else None
