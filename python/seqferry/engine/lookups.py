"""Objects as listings and look-ups show them, and named ones that could not be looked up."""

from __future__ import annotations

from seqferry._native import ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.messages.steps import COMMAND_LINE
from seqferry.model.models import ERROR_CLASSES
from seqferry.spec.addresses import MAX_KEY_BYTES


@frozen
class FailedLookup:
    """A named object that is absent or could not be looked up; its other fields are those of ``ObjectInfo``."""

    key: str
    failure: StorageError
    version_id: str | None = None
    is_absent: bool = False
    size: int = 0
    etag: str = ""
    last_modified: float = 0.0
    storage_class: str | None = None

    @property
    def refusal(self) -> tuple[str, str]:
        return self.failure.error_code or self.failure.code, self.failure.message

    @classmethod
    def absent(cls, place: Location, key: str, version_id: str | None = None) -> FailedLookup:
        """The entry of an object that is not at the place."""
        version = f" (version {version_id})" if version_id else ""
        what = "file" if isinstance(place, LocalFolder) else "object"
        why = f"There is no {what} {place.at(key)}{version}. {COMMAND_LINE.text('check_names')}"
        failure = StorageError(why, "object", "NoSuchKey", "HeadObject")
        return cls(key, failure, version_id, is_absent=True)

    @classmethod
    def of(cls, key: str, why: StorageError, version_id: str | None = None) -> FailedLookup:
        """The entry of an object that the storage refuses to show."""
        # An answer to HEAD has no body, and so no better code.
        code = "AccessDenied" if why.error_code == "Forbidden" else why.error_code
        known = why.error_class if why.error_class in ERROR_CLASSES else "object"
        return cls(key, StorageError(why.message, known, code, why.operation), version_id)


def is_too_long(place: Location, key: str) -> bool:
    """True for a key that no object there can have."""
    return isinstance(place, S3Location) and len(key.encode("utf-8", "surrogateescape")) > MAX_KEY_BYTES


def too_long(key: str) -> str:
    """The refusal of such a key."""
    why = f"'{key[:80]}...' is longer than the {MAX_KEY_BYTES} bytes that S3 allows for a key."
    return f"{why} {COMMAND_LINE.text('check_names')}"


Listed = ObjectInfo | FailedLookup
"""An object as a listing or a look-up shows it, or a named one that could not be looked up."""
