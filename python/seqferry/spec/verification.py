"""The verification of a transfer: a transfer of its own, whose objects are those that the other has brought.

What must stay true: the spec holds all that is needed to check the target, as the other transfer has recorded it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from seqferry.model import operations
from seqferry.model.errors import ConflictError
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location
from seqferry.model.models import OPERATION_VERIFY, Status, TransferSpec
from seqferry.spec import identity, run
from seqferry.spec.validation import validate_spec

VERIFIED_TRANSFER: Final = "of"
"""Option: the id of the transfer that is verified."""

BROUGHT_BY: Final = "brought_by"
"""Option: the operation of that transfer."""

CONTENT: Final = "content"
"""Option: all bytes are read, and compared with the digests on record."""

OPTIONS: Final = frozenset({VERIFIED_TRANSFER, BROUGHT_BY, CONTENT, run.PARTS})

MISSING: Final = "MissingAtTarget"
CHANGED: Final = "ChangedAtTarget"
"""Codes of failed objects. One with another code could not be read."""

_WAS: Final = ": was "
_NOW: Final = "; now: "
"""Parts of the engine's message of an object that is not as received, between its address and both descriptions."""


@frozen
class RecordedTarget:
    """A target on record of objects that were copied.

    Attributes:
        holds_archives: sizes and ETags on record are those of members.
    """

    place: Location
    holds_archives: bool


class RecordedTargets:
    """The targets of a verification, by the rows of its objects."""

    def __init__(self, spec: TransferSpec) -> None:
        self._whole = RecordedTarget(spec.target, operations.find_operation(str(spec.options[BROUGHT_BY])).packs)
        self._lines = run.RunLines(spec) if run.PARTS in spec.options else None

    def require(self) -> None:
        """Raise AccessError when this process cannot reach a place as recorded."""
        parts = [] if self._lines is None else [part.spec.target for part in self._lines.parts]
        for place in dict.fromkeys((self._whole.place, *parts)):
            identity.require(TransferSpec(source=place, target=place))

    def find_target(self, row_key: str) -> RecordedTarget:
        """The target of an object, by the source key of its row."""
        if self._lines is None:
            return self._whole
        part = self._lines.parts[self._lines.number_of(row_key)].spec
        return RecordedTarget(part.target, part.kind.packs)


def build_verification_spec(status: Status, *, content: bool = False) -> TransferSpec:
    """The spec of ``verify`` for a transfer on record.

    Raises:
        ConflictError: the transfer has not ended, or it brings nothing to its target.
    """
    if not status.ended:
        raise ConflictError(f"Transfer {status.id} has not ended; there is nothing to verify yet.")
    recorded = status.spec
    if did := recorded.kind.outcome_text:
        raise ConflictError(f"Transfer {status.id} {did}; nothing arrives by it, so there is nothing to verify.")
    place = identity.renew_keys(recorded).target
    options: dict[str, Any] = {VERIFIED_TRANSFER: status.id, BROUGHT_BY: recorded.operation}
    if content:
        options[CONTENT] = True
    if recorded.kind.runs_list:
        options[run.PARTS] = recorded.options[run.PARTS]
    return validate_spec(TransferSpec(source=place, target=place, operation=OPERATION_VERIFY, options=options))


def place_specs(spec: TransferSpec) -> Iterator[TransferSpec]:
    """A spec for each place of a verification; of a run, for each line that brings something."""
    if run.PARTS not in spec.options:
        yield spec
        return
    for one in run.line_specs(spec):
        if one.kind.outcome_text is None:
            yield TransferSpec(source=one.target, target=one.target, operation=OPERATION_VERIFY)


def parse_states(key: str, message: str) -> tuple[str, str]:
    """The recorded and the found state of the object with this key. A message of another form is the found state."""
    _, separator, states = message.partition(f"{key}{_WAS}")
    recorded, now, found = states.partition(_NOW)
    return (recorded, found) if separator and now else ("", message)
