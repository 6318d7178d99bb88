"""``seqferry cp``."""

from __future__ import annotations

from seqferry.cli import pipes, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, SourcesAndTarget, Start
from seqferry.cli.start_transfer import start_transfer
from seqferry.model.models import CheckedSpec
from seqferry.model.option_groups import Attributes, Filters, Protection, narrow_group
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
    spec = copy_spec(
        places, selection, filters, names, versions, speed, parts, storage, access, protection, attributes, endpoints
    ).derive(preflight=start.preflight is not False)
    return start_transfer(spec, speed, start, output, pricing)


def copy_spec(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    versions: Versions,
    speed: RecordedSpeed,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
) -> CheckedSpec:
    """Spec of ``cp`` by the options that are recorded with it.

    Raises:
        UsageError: it is not valid.
    """
    recorded = narrow_group(RecordedSpeed, speed)
    given = spec_arguments.build(
        places, selection, filters, names, versions, recorded, parts, storage, access, protection, attributes, endpoints
    )
    return build_spec(**given, allow_local=True)
