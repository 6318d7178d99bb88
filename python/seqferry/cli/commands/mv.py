"""``seqferry mv``."""

from __future__ import annotations

from dataclasses import replace

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_transfer
from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import OPERATION_MOVE, CheckedSpec, TransferSpec
from seqferry.model.option_groups import Attributes, Filters, Protection, narrow_group
from seqferry.spec.build import draft_spec, with_operation
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
    RecordedSpeed,
    SelectionOptions,
    SpeedOptions,
    StorageOptions,
)
from seqferry.spec.validation import validate_spec


def mv(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    speed: SpeedOptions,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
    start: Start,
    pricing: Pricing,
    output: Output,
) -> int:
    """Move objects: copy, verify, then delete at the source.

    A source object is deleted after its copy is verified and recorded, and only if it has not changed. Local
    source folders are kept.
    """
    pipes.reject_streams(places, "mv")
    spec = move_spec(
        places, selection, filters, names, speed, parts, storage, access, protection, attributes, endpoints
    ).derive(preflight=start.preflight is not False)
    return start_transfer(spec, speed, start, output, pricing)


def move_spec(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    speed: RecordedSpeed,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
) -> CheckedSpec:
    """Spec of ``mv`` by the options that are recorded with it.

    Raises:
        UsageError: it is not valid.
    """
    recorded = narrow_group(RecordedSpeed, speed)
    given = spec_arguments.build(
        places, selection, filters, names, recorded, parts, storage, access, protection, attributes, endpoints
    )
    return as_move(draft_spec(**given, allow_local=True))


def as_move(spec: TransferSpec) -> CheckedSpec:
    """Spec of a move, checked, from the draft of a copy.

    Raises:
        UsageError: its source cannot be removed.
    """
    if isinstance(spec.source, S3Location) and spec.source.anonymous:
        raise UsageError("mv removes objects at the source, which --no-sign-request does not allow; use cp.")
    if isinstance(spec.source, LocalFolder) and spec.source.symlinks == "follow":
        # What a link leads to is not removed for it.
        spec = replace(spec, source=replace(spec.source, symlinks="skip"))
    return validate_spec(with_operation(spec, OPERATION_MOVE))
