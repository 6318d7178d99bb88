"""``seqferry sync``."""

from __future__ import annotations

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_arguments, start_transfer
from seqferry.model.option_groups import Attributes, Filters, Protection, Removal
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
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
    given = spec_arguments.build(
        places,
        selection,
        filters,
        names,
        removal,
        parts,
        storage,
        access,
        protection,
        attributes,
        endpoints,
        below=True,
    )
    spec = build_spec(**given, **start_arguments(speed, start), below=True, allow_local=True)
    return start_transfer(spec, speed, start, output, pricing)
