"""Calls of the native module: places as it takes them, and its failures as errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from seqferry import _native
from seqferry.engine.executor import Failure
from seqferry.model.errors import MismatchError, StorageError
from seqferry.model.locations import Access, Identity, LocalFolder, Location
from seqferry.places import customer_keys
from seqferry.spec import identity

_UNRESOLVED: Final = Access(Identity("anonymous"))


@contextmanager
def translate_errors() -> Generator[None]:
    """Within: failures of the engine are raised as errors of the storage."""
    try:
        yield
    except _native.EngineError as failure:
        kind = MismatchError if failure.args[1] == "mismatch" else StorageError
        raise kind(*failure.args) from None
    except BaseException as panic:
        # A fault of the engine. It is no Exception, and handlers of failures must not miss it.
        if type(panic).__name__ == "PanicException":
            message = f"The engine failed by a fault of its own, which is worth a report: {panic}"
            raise StorageError(message, "person", "Panicked", job_wide=True) from panic
        raise


def storage_error(failure: Failure) -> StorageError:
    """A failure of the engine that did not raise, as an error of the storage."""
    return StorageError(failure.message, failure.error_class, failure.error_code, failure.operation, failure.job_wide)


class ProcessSettings:
    """Settings that hold for all requests of this process."""

    attempts: int | None = None


process_settings: Final = ProcessSettings()


def native_endpoint(place: Location, copies_from: Location | None = None) -> _native.Endpoint:
    """A place as the engine takes it; ``copies_from`` is the source of copies to it."""
    if isinstance(place, LocalFolder):
        return _native.Endpoint(
            disk=True,
            symlinks=place.symlinks,
            empty_directories=place.empty_directories,
            page_cache=place.page_cache,
            preserve_permissions=place.preserve_permissions,
        )
    own = identity.with_own_profile(place)
    found = own.access or _UNRESOLVED
    return _native.Endpoint(
        endpoint_url=own.endpoint_url,
        region=own.region,
        profile=own.profile,
        anonymous=own.anonymous,
        resolved=own.access is not None,
        ca_bundle=found.ca_bundle,
        use_fips=found.fips,
        use_dual_stack=found.dual_stack,
        path_style=found.path_style,
        accelerate=found.accelerate,
        sign_bodies=found.sign_bodies,
        request_payer=own.request_payer is not None,
        attempts=process_settings.attempts or own.attempts,
        customer_key=customer_keys.read(place),
        copy_source_key=None if copies_from is None else customer_keys.read(copies_from),
    )
