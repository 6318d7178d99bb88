"""The exception tree of Seqferry.

    SeqferryError
    ├── UsageError            what was asked, or a setting, makes no sense; nothing done    exit code 2
    ├── ConfigError           the state folder, the database or an address is not usable    exit code 1
    ├── NotFoundError         no such transfer                                              exit code 1
    ├── NoMatchError          a wildcard selects no object                                  exit code 4
    ├── ConflictError         the transfer is in a state that does not allow the act        exit code 1
    ├── AccessError           this process is not the identity that a transfer needs        exit code 1
    ├── UnsupportedError      a transfer asks for what this version does not know           exit code 1
    ├── WorkerBusyError       another worker holds the state folder (SQLite)                exit code 1
    ├── PolicyError           the server's policy or the client's role does not allow it    exit code 1
    ├── OverloadError         the server is busy, or the storage did not answer it in time  exit code 1
    └── StorageError          the storage said no, or could not be reached                  exit code 1
        ├── MismatchError         bytes are not what they must be                           exit code 3
        └── StorageTimeoutError   it has not answered in the time that a server waits

Every message is one sentence or two for a person: the operation, the thing it was about, the cause, the next step.
All of them survive pickling (they may cross a DBOS step): one message argument, further facts as attributes set after.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Self

from seqferry.model import exits

TRANSIENT_CLASSES: Final = ("retry", "throttle")
"""Classes of failures that may pass: the service was busy or out of reach for longer than the engine retries."""


class SeqferryError(Exception):
    """Base of all errors that are meant for a person. ``code`` is stable and machine-readable."""

    code = "error"
    exit_code: int = exits.FAILED
    options: tuple[str, ...] = ()
    """The options of a request that it is about, the one to be changed first: ``part_size``, ``source``.

    Empty: about no option. An interface shows the error beside the first of them that its request has.
    """

    def about(self, *options: str) -> Self:
        """The same error, of these options."""
        self.options = options
        return self

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code


@contextmanager
def errors_about(*options: str) -> Generator[None]:
    """Errors that are raised within and name no option are about these: for checks that do not know whose value it is.

    Raises:
        SeqferryError: as raised within.
    """
    try:
        yield
    except SeqferryError as error:
        if not error.options:
            error.about(*options)
        raise


class UsageError(SeqferryError):
    code = "usage"
    exit_code = exits.USAGE


class ConfigError(SeqferryError):
    code = "config"


class NotFoundError(SeqferryError):
    code = "not_found"


class NoMatchError(SeqferryError):
    code = "no_match"
    exit_code = exits.NOTHING


class ConflictError(SeqferryError):
    code = "conflict"


class AccessError(SeqferryError):
    code = "access"


class UnsupportedError(SeqferryError):
    """A stored transfer asks for what this version of Seqferry does not know; another version may.

    Attributes:
        what: the unknown part, as text: ``the operation 'pack'``.
    """

    code = "unsupported"

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message, what)
        self.what = what

    @classmethod
    def of(cls, what: str) -> Self:
        return cls(f"The transfer has {what}, which this version of Seqferry does not know. Upgrade Seqferry.", what)

    @property
    def needs(self) -> str:
        """The worker that can do it, as text."""
        return f"a worker with a version of Seqferry that knows {self.what}"

    def __str__(self) -> str:
        return self.message


class WorkerBusyError(SeqferryError):
    code = "worker_busy"


class PolicyError(SeqferryError):
    code = "not_allowed"


class OverloadError(SeqferryError):
    code = "busy"


class StorageError(SeqferryError):
    """A failure of the object storage, classified once by the engine.

    Attributes:
        error_class: one of ``models.ERROR_CLASSES``.
        error_code: the service's own code, for example ``AccessDenied``.
        operation: the S3 operation, for example ``HeadBucket``.
        job_wide: True when no other object of the job can fare better.
    """

    code = "storage"

    def __init__(
        self,
        message: str,
        error_class: str = "retry",
        error_code: str = "",
        operation: str = "",
        job_wide: bool = False,
    ) -> None:
        # All arguments go to args, so that pickling (which calls cls(*args)) brings them back.
        super().__init__(message, error_class, error_code, operation, job_wide)
        self.error_class = error_class
        self.error_code = error_code
        self.operation = operation
        self.job_wide = job_wide

    @property
    def is_transient(self) -> bool:
        """True when the same request may succeed a little later: a step that meets it is tried again a few times."""
        return self.error_class in TRANSIENT_CLASSES and not self.job_wide

    @property
    def is_denied(self) -> bool:
        """True when the credentials are valid and lack a permission."""
        return self.error_class == "person" and self.error_code in ("AccessDenied", "Forbidden")

    def __str__(self) -> str:
        return self.message


class MismatchError(StorageError):
    """The bytes that were read or written are not those that the storage promises, or that were sent."""

    code = "mismatch"
    exit_code = exits.MISMATCH


class StorageTimeoutError(StorageError):
    code = "storage_timeout"
