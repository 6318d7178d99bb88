"""The engine and the places of commands that need neither the state folder nor the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqferry.cli.option_groups import Object
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.settings.config import Settings
from seqferry.spec.addresses import parse_uri
from seqferry.spec.option_groups import OneEndpoint
from seqferry.spec.validation import check_place

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine


def parse_object(written: Object, endpoint: OneEndpoint) -> S3Location:
    """The place of one object.

    Raises:
        UsageError: a bucket is named, or the place makes no sense.
    """
    bucket, key = parse_uri(written.place)
    if key == "":
        raise UsageError(f"'{written.place}' is a bucket; name an object in it: s3://{bucket}/key")
    place = S3Location(
        bucket, key, endpoint_url=endpoint.endpoint_url, region=endpoint.region, profile=endpoint.profile
    )
    check_place(place)
    return place


def new_engine() -> Engine:
    """An engine by the settings of this process."""
    settings = Settings.load(with_tables=False)
    # Imported here: `seqferry --help` need not wait for the engine.
    from seqferry.engine.engine import Engine
    from seqferry.engine.traces import trace

    trace(settings.trace)
    return Engine(max_requests=settings.max_requests, memory=settings.memory, tpslimit=settings.tpslimit)
