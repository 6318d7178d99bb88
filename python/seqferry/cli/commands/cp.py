"""``seqferry cp``."""

from __future__ import annotations

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_arguments, start_transfer
from seqferry.model.option_groups import Attributes, Filters, Protection
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
    SelectionOptions,
    SpeedOptions,
    StorageOptions,
    Versions,
)


def cp(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    versions: Versions,
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
    """Copy objects between S3 buckets, or between S3 and local files.

    Within one S3 endpoint data is copied server-side. Otherwise it passes through this machine. Each object is
    verified. An interrupted transfer can be resumed.
    """
    if pipes.is_stream(places):
        pipes.check_options(places, storage, start, output)
        given = spec_arguments.build(
            places, selection, filters, names, versions, parts, storage, access, protection, attributes, endpoints
        )
        return pipes.copy_stream(output, speed, given)
    given = spec_arguments.build(
        places, selection, filters, names, versions, parts, storage, access, protection, attributes, endpoints
    )
    spec = build_spec(**given, **start_arguments(speed, start), allow_local=True)
    return start_transfer(spec, speed, start, output, pricing)
