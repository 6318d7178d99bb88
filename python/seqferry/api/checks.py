"""Checks of storage before a request is answered: few at a time, each with a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from seqferry.model.errors import OverloadError, StorageTimeoutError
from seqferry.model.locations import LocalFolder, Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints
from seqferry.service.service import Service
from seqferry.settings import policy

Found = TypeVar("Found")

AT_ONCE: Final = 8
SECONDS: Final = 10.0
"""Time limit for both buckets to answer, and for a check to begin while others wait for their storage."""


class StorageChecks:
    """Looks at storage in threads of their own, so that storage that does not answer takes none from other requests.

    A look that is no longer waited for goes on until the engine gives it up, and counts until then.
    """

    def __init__(self, service: Service, *, seconds: float = SECONDS) -> None:
        self._service = service
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)
        self._under_way = 0

    @property
    def under_way(self) -> int:
        return self._under_way

    async def check(self, spec: TransferSpec) -> None:
        """See that a transfer can start.

        Raises:
            PolicyError: an endpoint leads to an address that is never contacted.
            UsageError, StorageError: as ``Service.check``.
            StorageTimeoutError: the storage has not answered in time.
            OverloadError: too many looks wait for their storage.
        """
        await self.look(spec, lambda: self._service.check(spec))

    async def look(self, spec: TransferSpec, work: Callable[[], Found], *, operation: str = "HeadBucket") -> Found:
        """Return what ``work`` finds at the two places of a transfer; an error names ``operation`` when it is late.

        Raises:
            PolicyError, StorageTimeoutError, OverloadError: as ``check``.
            Exception: what ``work`` raises.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), self._seconds)
        except TimeoutError:
            raise OverloadError(
                f"{AT_ONCE} other requests wait for their storage to answer; nothing was started. Try again later."
            ) from None
        ended = self._begin(spec, work)
        done, _ = await asyncio.wait({ended}, timeout=self._seconds)
        if not done:
            places = " or ".join(dict.fromkeys(map(_endpoint, (spec.source, spec.target))))
            late = f"has not answered within {self._seconds:g} seconds"
            raise StorageTimeoutError(
                f"{operation}: {places} {late}; nothing was started. See that the endpoint is right and can be reached "
                "from the server, then try again."
            )
        return ended.result()()

    def _begin(self, spec: TransferSpec, work: Callable[[], Found]) -> asyncio.Future[Callable[[], Found]]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Callable[[], Found]] = loop.create_future()

        def end(outcome: Callable[[], Found]) -> None:
            self._under_way -= 1
            self._free.release()
            if not ended.done():
                ended.set_result(outcome)

        def look() -> None:
            outcome = _outcome(spec, work)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, outcome)

        self._under_way += 1
        threading.Thread(target=look, name="seqferry-check", daemon=True).start()
        return ended


def _outcome(spec: TransferSpec, work: Callable[[], Found]) -> Callable[[], Found]:
    """A function that returns what was found, or raises what was raised."""
    try:
        policy.check_addresses(spec)
        found = work()
    except Exception as why:  # noqa: BLE001 - raised where it is waited for
        failure = why

        def fail() -> Found:
            raise failure

        return fail
    return lambda: found


def _endpoint(place: Location) -> str:
    if isinstance(place, LocalFolder):
        return place.path
    found = endpoints.of(place)
    return found if found is not None and "://" in found else f"AWS (s3://{place.bucket})"
