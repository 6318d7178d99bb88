"""Texts for recipients of a delivery, on the page and in mails: its state, and causes of failures.

They name no code and no bucket, and say who has to act.

A text speaks of the missing files by placeholders (``{they} {were} not found``), so that it fits one file as well.
"""

from __future__ import annotations

from typing import Final, Literal

from seqferry.model.formatting import count
from seqferry.model.frozen import frozen

Needs = Literal["sender", "operator", "storage"]
"""The side that has to act: the sender of the data, the operator of Seqferry, or the storage service."""


@frozen
class PlainCause:
    """A cause; ``template`` is its text with placeholders."""

    needs: Needs
    template: str

    @property
    def words(self) -> str:
        """The end of the sentence "3 files are missing: ..."."""
        return self.text(2)

    def text(self, files: int) -> str:
        """The same for so many files."""
        return self.template.format_map(_ONE if files == 1 else _MANY)


_ONE: Final = {"they": "it", "them": "it", "are": "is", "were": "was", "have": "has"}
_MANY: Final = {word: word for word in _ONE}


_READS: Final = frozenset(
    {"GetObject", "HeadObject", "ListObjectsV2", "ListObjects", "GetObjectAttributes", "GetObjectTagging", "read"}
)
"""Operations that only read a source."""

_COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
"""Operations that read a source and write a target: a refusal does not say which of the two it means."""

_DENIED: Final = frozenset({"AccessDenied", "Forbidden", "403", "AllAccessDisabled", "AccountProblem"})
_ARCHIVED: Final = frozenset({"InvalidObjectState"})
_GONE: Final = frozenset({"NoSuchKey", "NoSuchVersion", "NotFound", "404", "MissingAtSource"})
_CHANGES: Final = {
    "MissingAtTarget": PlainCause("operator", "{they} {are} not at the target"),
    "ChangedAtTarget": PlainCause("operator", "{they} {are} not at the target as {they} {were} received"),
}
"""Findings of a comparison of two places, or of a target with its receipt."""
_EXISTS: Final = "a different file of the same name is there already"

_OF_CLASS: Final[dict[str, PlainCause]] = {
    "retry": PlainCause("storage", "the storage did not answer for too long"),
    "throttle": PlainCause("storage", "the storage was too busy for too long"),
    "credentials": PlainCause("operator", "the permission to copy {them} has expired"),
    "redirect": PlainCause("operator", "{they} {are} in another region than was given"),
    "source_changed": PlainCause("sender", "{they} {were} changed while {they} {were} copied"),
    "object": PlainCause("operator", "{they} cannot be copied as {they} {are}"),
    "person": PlainCause("operator", "a permission has to be given first"),
    "capability": PlainCause("operator", "the storage cannot keep {them} as was asked"),
    "mismatch": PlainCause("operator", "what arrived is not what was sent, and must not be used"),
    "exists": PlainCause("operator", _EXISTS),
}
_OTHER: Final = PlainCause("operator", "{they} could not be copied")


def explain_failure(error_class: str | None, error_code: str | None, operation: str | None) -> PlainCause:
    """The cause of a failure of this class, code and operation."""
    code = error_code or ""
    if code in _DENIED:
        if (operation or "") in _READS:
            return PlainCause("sender", "access to {them} was denied")
        if (operation or "") in _COPIES:
            return PlainCause("operator", "reading {them}, or writing {them} here, was denied")
        return PlainCause("operator", "writing {them} was denied")
    if code in _ARCHIVED:
        return PlainCause("sender", "{they} {are} in an archive and {have} to be restored first")
    if code in _GONE:
        return PlainCause("sender", "{they} {were} not found")
    return _CHANGES.get(code) or _OF_CLASS.get(error_class or "", _OTHER)


def explain_end(error_code: str | None) -> str:
    """Cause for which a whole transfer ended as failed, as text."""
    code = error_code or ""
    if code in _DENIED:
        return "access was denied"
    if code in ("NoSuchBucket", *_GONE):
        return "the place that the files come from, or go to, is not there"
    return "something has to be put right first; those who run the transfer can see what"


def delivery_text(
    state: str, *, objects: int, arrived: int, verified: int, missing: int, error: str | None, waits: str | None
) -> str:
    """The state of a delivery: what has arrived, and what happens next.

    Args:
        state: of ``service.deliveries``.
        error: the cause, where all of it ended as failed.
        waits: the text of ``wait_text``, where it has not begun.
    """
    some = f"{arrived:,} of {count(objects, 'file')} {'has' if objects == 1 else 'have'} arrived"
    is_verified = verified == arrived
    if state == "complete" and is_verified:
        return f"Complete. {count(arrived, 'file')}, all verified."
    all_of_it = "It" if arrived == 1 else "All"
    texts = {
        "complete": f"Complete. {all_of_it} arrived; {verified:,} of {arrived:,} were verified.",
        "waiting": f"This delivery has not begun yet. {waits or ''}".rstrip(),
        "listing": f"Listing files: {objects:,} found so far.",
        "failed": f"The delivery has stopped: {error or 'it could not go on'}. {some}.",
        "cancelled": f"The delivery was cancelled. {some}.",
        "incomplete": f"The delivery has ended. {some}; {count(missing, 'file')} {_are(missing)} missing.",
        "paused": f"The delivery is paused. {some} so far.",
        "stopping": f"The delivery is being stopped. {some}.",
    }
    return texts.get(state) or (f"{some} and {_are(objects)} verified." if is_verified else f"{some}.")


def wait_text(kind: str, name: str | None, ahead: int | None) -> str:
    """The cause of a delivery's wait: ``kind``, ``name`` and ``ahead`` of ``service.deliveries.DeliveryWait``."""
    if kind == "delivery":
        return f"It waits for {name or 'another delivery'}."
    if kind == "worker":
        return "It waits for a machine that can do it."
    return f"{ahead:,} {'delivery comes' if ahead == 1 else 'deliveries come'} first." if ahead else "It is next."


def _are(files: int) -> str:
    return "is" if files == 1 else "are"
