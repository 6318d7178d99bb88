"""The Rust engine as typed Python: the only importer of ``_native``.

Adds nothing but the translation of places (``Location``) and failures (``StorageError``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from seqferry import _native
from seqferry._native import CopyItem, Failure, Job, MultipartBegun, ObjectInfo, Outcome, Progress
from seqferry.errors import StorageError
from seqferry.models import Location, TransferSpec

__all__ = [
    "CopyItem",
    "Engine",
    "Failure",
    "Job",
    "MultipartBegun",
    "ObjectInfo",
    "Outcome",
    "Progress",
    "version",
]


def version() -> str:
    """The version of Seqferry."""
    return _native.__version__


_UNREACHABLE = frozenset({"ConnectionFailed", "TimedOut"})


@contextmanager
def _translated(place: Location | None = None) -> Generator[None]:
    try:
        yield
    except _native.EngineError as failure:
        message, error_class, error_code, *rest = failure.args
        if place is not None and place.endpoint_url is not None and error_code in _UNREACHABLE:
            # The engine names bucket and cause; which address was tried is what the user has to look at.
            message = f"{message} The endpoint is {place.endpoint_url}."
        raise StorageError(message, error_class, error_code, *rest) from None


def _endpoint(place: Location) -> _native.Endpoint:
    return _native.Endpoint(
        endpoint_url=place.endpoint_url, region=place.region, profile=place.profile, anonymous=place.anonymous
    )


class Engine:
    """One per process: one runtime and one request budget, shared by all jobs."""

    def __init__(
        self, *, max_requests: int = 512, memory: int = 256 * 1024 * 1024, max_bandwidth: int | None = None
    ) -> None:
        """Args: requests in flight, bytes of buffers, bytes per second (None: no limit)."""
        self._native = _native.Engine(max_requests=max_requests, memory=memory, max_bandwidth=max_bandwidth)

    def check_bucket(self, place: Location) -> None:
        """Raise StorageError when the bucket of this place cannot be used."""
        with _translated(place):
            self._native.check_bucket(_endpoint(place), place.bucket)

    def head(self, place: Location, keys: list[str]) -> list[ObjectInfo | None]:
        """Look each key up; None where there is no such object."""
        with _translated(place):
            return self._native.head(_endpoint(place), place.bucket, keys)

    def list(self, place: Location, *, limit: int | None = None) -> Iterator[list[ObjectInfo]]:
        """Pages of all objects whose key starts with ``place.key``, in no order, in bounded memory.

        Yields an empty page now and then while waiting, so that the caller can look around.
        """
        with _translated(place):
            listing = self._native.list(_endpoint(place), place.bucket, place.key, limit=limit)
            try:
                while (page := listing.next(0.5)) is not None:
                    yield page
            finally:
                listing.close()

    def start(self, spec: TransferSpec, items: Iterable[CopyItem], *, resumed: bool, since: float) -> Job:
        """Start copying ``items`` as ``spec`` asks. See ``_native.CopyPolicy`` for ``resumed`` and ``since``."""
        with _translated():
            policy = _native.CopyPolicy(
                source=_endpoint(spec.source),
                source_bucket=spec.source.bucket,
                target=_endpoint(spec.target),
                target_bucket=spec.target.bucket,
                if_exists=spec.if_exists,
                verify=spec.verify,
                part_size=spec.part_size,
                copy_threshold=spec.copy_threshold,
                storage_class=spec.storage_class,
                resumed=resumed,
                since=since,
            )
            return self._native.start(policy, list(items))
