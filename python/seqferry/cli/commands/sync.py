"""``seqferry sync``."""

from __future__ import annotations

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_transfer
from seqferry.model.models import CheckedSpec
from seqferry.model.option_groups import Attributes, Filters, Protection, Removal, narrow_group
from seqferry.spec.build import build_spec
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


def sync(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    removal: Removal,
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
    """Copy new and changed objects from SRC to DST.

    Everything below SRC is compared. With --delete, objects that exist only at DST are deleted.
    """
    pipes.reject_streams(places, "sync")
    spec = sync_spec(
        places, selection, filters, names, removal, speed, parts, storage, access, protection, attributes, endpoints
    ).derive(preflight=start.preflight is not False)
    return start_transfer(spec, speed, start, output, pricing)


def sync_spec(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    removal: Removal,
    speed: RecordedSpeed,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
) -> CheckedSpec:
    """Spec of ``sync`` by the options that are recorded with it.

    Raises:
        UsageError: it is not valid.
    """
    given = spec_arguments.build(
        places,
        selection,
        filters,
        names,
        removal,
        narrow_group(RecordedSpeed, speed),
        parts,
        storage,
        access,
        protection,
        attributes,
        endpoints,
        below=True,
    )
    return build_spec(**given, below=True, allow_local=True)
