"""``seqferry du``."""

from __future__ import annotations

from typing import Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.listings import HumanReadable, engine_for, format_size, list_all, matching_entries, split_wildcard
from seqferry.cli.output import display, text
from seqferry.model.locations import S3Location
from seqferry.spec.addresses import parse_uri


def du(
    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket, s3://bucket/prefix or s3://bucket/*.gz.")],
    human_readable: HumanReadable = False,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    region: options.Region = None,
    no_sign_request: options.NoSignRequest = False,
    request_payer: options.RequestPayer = None,
    as_json: options.Json = False,
) -> int:
    """Print the number and size of objects by storage class."""
    written = place
    place, pattern = split_wildcard(place)
    bucket, key = parse_uri(place)
    location = S3Location(
        bucket=bucket,
        key=key,
        endpoint_url=endpoint_url,
        region=region,
        profile=profile,
        anonymous=no_sign_request,
        request_payer=request_payer,
    )
    uri = location.uri if pattern is None else written
    classes: dict[str, tuple[int, int]] = {}
    for entry in matching_entries(list_all(engine_for(location), location), pattern):
        objects, total = classes.get(entry.storage_class or "STANDARD", (0, 0))
        classes[entry.storage_class or "STANDARD"] = objects + 1, total + entry.size
    objects, total = (sum(one[at] for one in classes.values()) for at in (0, 1))
    if as_json:
        of_classes = {name: {"objects": one[0], "bytes": one[1]} for name, one in sorted(classes.items())}
        display.emit("usage", uri=uri, objects=objects, bytes=total, storage_classes=of_classes)
    else:
        for name, (count, size) in sorted(classes.items()) if len(classes) > 1 else ():
            print(
                f"{format_size(size, human=human_readable):>12}  {text.count(count, 'object')}  {text.printable(name)}"
            )
        print(f"{format_size(total, human=human_readable):>12}  {text.count(objects, 'object')}  {text.printable(uri)}")
    return exits.OK if objects else exits.NOTHING
