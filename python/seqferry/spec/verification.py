"""The verification of a transfer: a transfer of its own, whose objects are those that the other has brought.

What must stay true: the spec holds all that is needed to check the target, as the other transfer has recorded it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from seqferry.model import operations
from seqferry.model.errors import ConflictError, UsageError, errors_about
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import OPERATION_VERIFY, CheckedSpec, Status, TransferSpec
from seqferry.model.option_groups import Filters, Names, Speed, narrow_group
from seqferry.places import customer_keys
from seqferry.spec import identity, run
from seqferry.spec.build import with_attempts
from seqferry.spec.options import Options
from seqferry.spec.selection import Conditions, build_matcher
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


def build_verification_spec(
    status: Status,
    *,
    content: bool = False,
    keys: Sequence[str] | None = None,
    versions: Sequence[str] = (),
    targets: Sequence[str] = (),
    inventory: str | None = None,
    **given: Any,
) -> CheckedSpec:
    """The spec of ``verify`` for a transfer on record.

    Args:
        keys: the objects to verify, named below the target; None: all that the other options select.
        given: options by name, as of ``Options.of``: those that select by key, size and time, limits of requests, and
            those that say how the target is reached today.

    Raises:
        ConflictError: the transfer has not ended, or it brings nothing to its target.
        UsageError: an option does not fit a verification.
    """
    if not status.ended:
        raise ConflictError(f"Transfer {status.id} has not ended; there is nothing to verify yet.")
    recorded = status.spec
    if did := recorded.kind.outcome_text:
        raise ConflictError(f"Transfer {status.id} {did}; nothing arrives by it, so there is nothing to verify.")
    asked = Options.of(given)
    if any(versions) or any(targets) or inventory is not None:
        raise UsageError(
            "verify reads from the record which objects there are: list keys below the target, and nothing else."
        ).about("keys")
    if asked.names.rename:
        raise UsageError("--rename is for copies: verify takes names from the record. Leave it out.").about("rename")
    if recorded.kind.packs and asked.filters != Filters():
        raise UsageError(
            "Sizes and times on record are those of the members of an archive: verify it as a whole, or by its name."
        ).about("min_size", "max_size", "newer_than", "older_than")
    place = _place_now(recorded, identity.renew_keys(recorded).target, asked)
    options: dict[str, Any] = {VERIFIED_TRANSFER: status.id, BROUGHT_BY: recorded.operation}
    if content:
        options[CONTENT] = True
    if recorded.kind.runs_list:
        options[run.PARTS] = recorded.options[run.PARTS]
    is_aged = asked.filters.newer_than is not None or asked.filters.older_than is not None
    spec = TransferSpec(
        source=place,
        target=place,
        operation=OPERATION_VERIFY,
        options=options,
        keys=None if keys is None else tuple(dict.fromkeys(keys)),
        filters=asked.filters,
        names=narrow_group(Names, asked.names),
        speed=narrow_group(Speed, asked.speed),
        as_of=time.time() if is_aged else None,
    )
    return validate_spec(with_attempts(spec, asked.speed.attempts))


def names_place(given: Mapping[str, Any]) -> bool:
    """True when options of a verification say how the target is reached, other than the record does."""
    return any(given.get(name) for name in _OF_PLACE)


_OF_PLACE: Final = (
    *("endpoint_url", "region", "profile", "no_sign_request"),
    *("sse_c_key", "sse_c_copy_source_key", "request_payer"),
)


def _place_now(recorded: TransferSpec, place: Location, asked: Options) -> Location:
    """The target on record, reached as the options say."""
    of, access = asked.endpoints, asked.access
    if access.sse_c_copy_source_key is not None:
        raise UsageError(
            "--sse-c-copy-source-key is for copies: verify reads the target alone; give --sse-c-key."
        ).about("sse_c_copy_source_key")
    reached: dict[str, Any] = {
        "endpoint_url": of.endpoint_url, "region": of.region, "profile": of.profile,
        "anonymous": of.no_sign_request or None, "request_payer": access.request_payer,
    }  # fmt: skip
    changed = {name: value for name, value in reached.items() if value is not None}
    if access.sse_c_key is not None:
        with errors_about("sse_c_key"):
            changed |= {"sse_c": customer_keys.key_location(access.sse_c_key), "sse_c_proof": None}
    if not changed:
        return place
    if not isinstance(place, S3Location) or recorded.kind.runs_list:
        where = "the lines of a list have targets of their own" if recorded.kind.runs_list else "the target is a folder"
        raise UsageError(f"Options of the storage do not fit this verification: {where}. Leave them out.").about(
            *_OF_PLACE
        )
    return replace(place, access=None, **changed)


def build_selection(spec: TransferSpec, recorded: TransferSpec) -> Callable[[str, int, float], bool] | None:
    """The test of an object on record by its key at the target, its size and its time; None: all are verified.

    Rules, depth and listed keys are about the key below the target; of a single object, about its name.
    """
    start = recorded.target.key
    if recorded.single:
        start = start[: start.rfind("/") + 1]
    test = build_matcher(Conditions(names=spec.names, filters=spec.filters, as_of=spec.as_of, strip=start))
    if spec.keys is None:
        return test
    listed = frozenset(spec.keys)
    return lambda key, size, time: key.removeprefix(start) in listed and (test is None or test(key, size, time))


def selected_by(spec: TransferSpec) -> dict[str, Any]:
    """The options that select objects of a verification, for the record; empty when all are verified."""
    found = {
        one.name: getattr(group, one.name)
        for group, kind in ((spec.filters, Filters), (spec.names, Names))
        for one in fields(kind)
        if getattr(group, one.name) != getattr(kind(), one.name)
    }
    return found | ({} if spec.keys is None else {"keys": len(spec.keys)})


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
