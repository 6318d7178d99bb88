"""Checks of storage before a request is answered: few at a time, each with a time limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from seqferry.model.errors import OverloadError, StorageTimeoutError
from seqferry.model.locations import LocalFolder, Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints
from seqferry.preflight import start
from seqferry.service.service import Service
from seqferry.settings import policy

Found = TypeVar("Found")

_Bucket = tuple[Location, bool]
"""A bucket, and whether it is to be listed."""

MAX_CHECKS: Final = 8
SECONDS: Final = 10.0
"""Time limit for both buckets to answer, and for a check to begin while others wait for their storage."""

USABLE_SECONDS: Final = 5.0
"""Time for which a bucket counts as usable after a check: a client that submits many transfers waits for few checks.
A transfer finds out itself what has changed since."""


class StorageChecks:
    """Runs checks of storage in their own threads, so that a slow endpoint does not block other requests.

    A check whose request has timed out goes on until the engine gives up, and counts against the limit until then.
    """

    def __init__(self, service: Service, *, seconds: float = SECONDS) -> None:
        self._service = service
        self._seconds = seconds
        self._free = asyncio.Semaphore(MAX_CHECKS)
        self._usable: dict[_Bucket, float] = {}
        self._checking: dict[frozenset[_Bucket], asyncio.Event] = {}
        self._under_way = 0

    @property
    def under_way(self) -> int:
        return self._under_way

    async def check(self, spec: TransferSpec) -> None:
        """Check that a transfer can start. A bucket that could be used some seconds ago is not requested again.

        Submissions that come together wait for one check of their buckets; where it fails, each makes its own.

        Raises:
            PolicyError: an endpoint leads to an address that is never contacted.
            UsageError, StorageError: as ``Service.check``.
            StorageTimeoutError: the storage has not answered in time.
            OverloadError: too many checks wait for their storage.
        """
        buckets = start.named_buckets(spec)
        if buckets is None:
            await self.run(spec, lambda: self._service.check(spec))
            return
        if not self._are_usable(buckets) and (under_way := self._checking.get(buckets)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await under_way.wait()
        if self._are_usable(buckets):
            return
        began, ended = time.monotonic(), asyncio.Event()
        self._checking.setdefault(buckets, ended)
        try:
            await self.run(spec, lambda: self._service.check(spec))
            self._usable = {bucket: at for bucket, at in self._usable.items() if at > began - USABLE_SECONDS}
            self._usable |= dict.fromkeys(buckets, began)
        finally:
            ended.set()
            if self._checking.get(buckets) is ended:
                del self._checking[buckets]

    def _are_usable(self, buckets: frozenset[_Bucket]) -> bool:
        since = time.monotonic() - USABLE_SECONDS
        return all(self._usable.get(bucket, since) > since for bucket in buckets)

    async def run(self, spec: TransferSpec, work: Callable[[], Found], *, operation: str = "HeadBucket") -> Found:
        """Return the result of ``work``, which reads source and target; the error of a timeout names ``operation``.

        Raises:
            PolicyError, StorageTimeoutError, OverloadError: as ``check``.
            Exception: what ``work`` raises.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            raise OverloadError(
                f"{MAX_CHECKS} other requests wait for their storage to answer; nothing was started. Try again later."
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

        def end(result: Callable[[], Found]) -> None:
            self._under_way -= 1
            self._free.release()
            if not ended.done():
                ended.set_result(result)

        def run() -> None:
            result = _run_caught(spec, work)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, result)

        self._under_way += 1
        threading.Thread(target=run, name="seqferry-check", daemon=True).start()
        return ended


def _run_caught(spec: TransferSpec, work: Callable[[], Found]) -> Callable[[], Found]:
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
    found = endpoints.resolve(place)
    return found if found is not None and "://" in found else f"AWS (s3://{place.bucket})"
