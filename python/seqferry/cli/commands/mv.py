"""``seqferry mv``."""

from __future__ import annotations

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_transfer
from seqferry.model.models import CheckedSpec
from seqferry.model.option_groups import Attributes, Filters, Protection, narrow_group
from seqferry.spec.build import as_move, draft_spec
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
